package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseList(t *testing.T) {
	out := `{"Action":"start","Package":"m/b"}
{"Action":"output","Package":"m/b","Output":"FuzzZ\n"}
{"Action":"output","Package":"m/b","Output":"FuzzA\n"}
{"Action":"output","Package":"m/b","Output":"ok  \tm/b\t0.003s\n"}
{"Action":"output","Package":"m/a","Output":"Fuzz\n"}
{"Action":"output","Package":"m/c","Output":"?   \tm/c\t[no test files]\n"}
`
	got, err := parseList([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	want := []target{{"m/a", "Fuzz"}, {"m/b", "FuzzA"}, {"m/b", "FuzzZ"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(target{})); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if _, err := parseList([]byte(out[:40])); err == nil {
		t.Error("a list that is cut off is taken for whole")
	}
}

func TestOnlyDeadline(t *testing.T) {
	const head = "fuzz: elapsed: 3s, execs: 40304 (0/sec), new interesting: 104 (total: 108)\n"
	const deadline = head + "--- FAIL: FuzzX (3.20s)\n    context deadline exceeded\nFAIL\nexit status 1\n"
	if !onlyDeadline.MatchString(deadline) {
		t.Error("a run that found nothing counts as failed")
	}
	const found = head + "--- FAIL: FuzzX (0.04s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: context deadline exceeded\n    \n    Failing input written to testdata/fuzz/FuzzX/1\nFAIL\n"
	if onlyDeadline.MatchString(found) {
		t.Error("a run that found an input counts as passed")
	}
	if got := lastExecs([]byte(head)); got != "40304" {
		t.Errorf("%s inputs", got)
	}
}

// module is a module with a target that fails at once and one that never does.
const module = `package x
import "testing"
func FuzzBad(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, n int) { t.Fatal("bad") }) }
func FuzzGood(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, n int) {}) }
`

func TestRunReportsTheTargetThatFails(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.25\n", "x_test.go": module} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	ok, err := run(t.Context(), []string{"./..."}, 50*time.Millisecond, 2, "logs")
	if err != nil || ok {
		t.Fatalf("ok %v, %v", ok, err)
	}
	for name, want := range map[string]string{"x.FuzzBad.log": "FAIL", "x.FuzzGood.log": "PASS"} {
		log, err := os.ReadFile(filepath.Join("logs", name))
		if err != nil || !strings.Contains(string(log), want) {
			t.Errorf("%s: %v\n%s", name, err, log)
		}
	}
}
