package podplan_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
)

// TestReportDocumented holds that docs/api.md has a row for each field of plan.json that
// there is on three levels alone, and for no other.
func TestReportDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "| Field on three levels | |\n|---|---|\n")
	if !found {
		t.Fatal("docs/api.md has no table of the fields of plan.json on three levels")
	}
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
	onTwo := names(reflect.TypeFor[planner.Report]())
	own := slices.DeleteFunc(names(reflect.TypeFor[podplan.Report]()), func(name string) bool { return slices.Contains(onTwo, name) })
	if diff := cmp.Diff(own, documented); diff != "" {
		t.Errorf("fields of plan.json on three levels (-) and those that docs/api.md has (+):\n%s", diff)
	}
}

// names are those of the JSON fields of a report, sorted.
func names(report reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(report) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !f.Anonymous {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
