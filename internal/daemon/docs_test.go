package daemon

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/internal/health"
)

const manual = "../../docs/warnings.md"

var updateManual = flag.Bool("manual", false, "write docs/warnings.md anew")

// TestManualExplainsEveryWarning compares docs/warnings.md with the kinds of warnings
// that forsd can raise and their texts in internal/health/advice.txt.
func TestManualExplainsEveryWarning(t *testing.T) {
	want := writeManual(t)
	if *updateManual {
		if err := os.WriteFile(manual, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(manual)
	if err != nil || string(have) != want {
		t.Errorf("%s is not what the code says: go test ./internal/daemon -run Manual -manual writes it (%v)", manual, err)
	}
}

func writeManual(t *testing.T) string {
	all := slices.SortedFunc(slices.Values(kinds()), func(a, b health.Warnable) int { return cmp.Compare(a.Code, b.Code) })
	all = slices.CompactFunc(all, func(a, b health.Warnable) bool { return a.Code == b.Code })
	var out strings.Builder
	out.WriteString("# Warnings\n\nEvery warning by its code. *critical*: forsd cannot do its work. *degraded*: it costs something. *info*: good to know. `forsctl status --all` shows the same remedies. Made by `go test ./internal/daemon -run Manual -manual`.\n")
	for _, k := range all {
		e, ok := health.Explanations()[k.Code]
		if !ok {
			t.Errorf("internal/health/advice.txt does not explain %s (%s)", k.Code, k.Title)
		}
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n**Remedy:** %s\n", k.Code, strings.TrimSpace(fmt.Sprintf("*%s: %s.* %s", k.Severity, strings.TrimSuffix(k.Title, "."), e.Meaning)), e.Advice)
		if e.Commands != "" {
			fmt.Fprintf(&out, "\n```sh\n%s\n```\n", e.Commands)
		}
	}
	if n := len(health.Explanations()); n != len(all) {
		t.Errorf("internal/health/advice.txt explains %d codes, and forsd raises %d", n, len(all))
	}
	return out.String()
}
