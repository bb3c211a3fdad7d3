package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/report"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
)

// interrupter interrupts this process when some text is written.
type interrupter struct {
	said bytes.Buffer
	at   string
}

func (i *interrupter) Write(p []byte) (int, error) {
	if i.at != "" && bytes.Contains(p, []byte(i.at)) {
		i.at = ""
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
	}
	return i.said.Write(p)
}

// TestRehearsal rehearses a fabric whose hosts are not all on a leaf of their own kind, with
// settings that stand in forsd's way, to the end; then it is interrupted.
func TestRehearsal(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs OpenSM on a simulated fabric")
	}
	if err := ibsim.Available(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	for _, build := range []func() (string, error){func() (string, error) { return e2e.Build(t.Context(), dir) }, func() (string, error) { return e2e.BuildPlugin(t.Context(), dir) }} {
		if _, err := build(); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	dump, conf, page := filepath.Join(dir, "fabric.txt"), filepath.Join(dir, "opensm.conf"), filepath.Join(dir, "page.html")
	write(t, dump, fabgen.Ibnetdiscover(fabgen.LoginLeaf(1)))
	write(t, conf, []byte("use_ucast_cache TRUE\nm_key 0x17\nm_key_protection_level 3\n"))
	rehearse := func(stderr *interrupter, seed string) (r report.Rehearsal) {
		t.Helper()
		var stdout bytes.Buffer
		if code := run([]string{dump, "--opensm-conf", conf, "--events", "4", "--seed", seed, "--out", page, "--json"}, &stdout, stderr); code != command.OK {
			t.Fatalf("exit code %d: %s", code, &stderr.said)
		}
		if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	said := &interrupter{}
	r := rehearse(said, "1")
	if len(r.Events) != 4 || r.Violation() != "" || r.Servers == 0 || r.Phases < r.LowerBound || len(r.Settings.Findings) < 2 {
		t.Errorf("%+v", r)
	}
	for _, u := range r.Programs {
		if u.PeakMiB <= 0 || u.CPUSeconds <= 0 {
			t.Errorf("%s has used %v", u.Program, u)
		}
	}
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), "m_key_protection_level") {
		t.Errorf("the page: %v\n%s", err, html)
	}
	for _, p := range r.Events {
		if !strings.Contains(said.said.String(), p.What()) || !strings.Contains(string(html), p.What()) {
			t.Errorf("%s is not in the page and the progress", p.What())
		}
	}
	if r := rehearse(&interrupter{at: "   2  "}, "2"); len(r.Events) != 2 && len(r.Events) != 3 || r.Violation() != "" {
		t.Errorf("interrupted: %+v", r)
	}
}

// TestMistakes gives the program what it cannot use.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		write(t, path, data)
		return path
	}
	good := file("good", fabgen.Ibnetdiscover(fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 3})))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{filepath.Join(dir, "none")}, "no such file"},
		{[]string{file("text", []byte("hello\n"))}, "expected the output of ibnetdiscover"},
		{[]string{file("torus", fabgen.Ibnetdiscover(fabgen.Torus(3, 3, 1)))}, "forsd makes no plan for this fabric: not a two-level fat tree"},
		{[]string{file("deep", fabgen.Ibnetdiscover(fabgen.FourLevels(2)))}, "there are four levels or more"},
		{[]string{good, "--events", "0"}, "--events 0: want 1 or more"},
		{[]string{good, "--opensm-conf", filepath.Join(dir, "none")}, "no such file"},
		{nil, "accepts 1 arg"},
	} {
		var stderr bytes.Buffer
		if code := run(c.args, &stderr, &stderr); code != command.Unusable || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%v: exit code %d: %s", c.args, code, stderr.String())
		}
	}
	t.Setenv("PATH", dir)
	var stderr bytes.Buffer
	if code := run([]string{good}, &stderr, &stderr); code != command.Unusable || !strings.Contains(stderr.String(), "install the package forsd") {
		t.Errorf("without programs: exit code %d: %s", code, stderr.String())
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
