package main

import (
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/built"
)

// TestTexts checks that the texts that faults replace exist, once each.
func TestTexts(t *testing.T) {
	root, err := built.Module(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for i := range faults {
		if p, err := overlay(root, t.TempDir(), &faults[i]); err != nil || p.first == 0 {
			t.Errorf("%s: %v", faults[i].name, err)
		}
		names[faults[i].name] = true
	}
	if len(names) < 25 {
		t.Errorf("%d faults, want 25", len(names))
	}
}

// TestFew plants a fault, with all nets but the long ones and the judge: one net is too few.
func TestFew(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds forsctl several times")
	}
	var out strings.Builder
	err := (&options{without: "mutation,soak,judge", only: "^a gap off"}).run(t.Context(), &out)
	if err == nil || err.Error() != "caught by fewer than two nets: a gap off by one" {
		t.Errorf("%v", err)
	}
	if got := strings.Count(out.String(), " yes |"); got != 1 {
		t.Errorf("%d catches, want 1:\n%s", got, out.String())
	}
}
