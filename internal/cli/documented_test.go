package cli

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/programs"
)

func TestDocumentedCommands(t *testing.T) {
	programs.Documented(t, "../..", Command, 30)
	for _, wrong := range []string{"nonsense", "plan --wild 3", "baseline drop", "whatif --done", "rollback", "status more"} {
		if programs.Parses(Command(), strings.Fields(wrong), true) == nil {
			t.Errorf("forsctl %s is found to be right", wrong)
		}
	}
}

// TestPlanDocumented checks that docs/api.md has one row for each field of plan.json, for two
// levels and for the fields of three levels, and that it has no other rows.
func TestPlanDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	onTwo := fields("", reflect.TypeFor[planner.Report]())
	alone := slices.DeleteFunc(fields("", reflect.TypeFor[podplan.Report]()), func(name string) bool { return slices.Contains(onTwo, name) })
	for title, want := range map[string][]string{
		"Field of `plan.json`":  append(onTwo, fields("base.", reflect.TypeFor[planner.BaseReport]())...),
		"Field on three levels": alone,
	} {
		_, rest, _ := strings.Cut(string(text), "\n| "+title+" | |\n|---|---|\n")
		table, _, _ := strings.Cut(rest, "\n\n")
		var documented []string
		for row := range strings.Lines(table) {
			for i, name := range strings.Split(strings.Split(row, "|")[1], "`") {
				if i%2 != 0 {
					documented = append(documented, name)
				}
			}
		}
		slices.Sort(documented)
		slices.Sort(want)
		if diff := cmp.Diff(want, documented); diff != "" {
			t.Errorf("%s: those that there are (-) and those that docs/api.md has (+):\n%s", title, diff)
		}
	}
}

// fields are the names of the JSON fields of a report.
func fields(prefix string, report reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(report) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !f.Anonymous {
			names = append(names, prefix+name)
		}
	}
	return names
}
