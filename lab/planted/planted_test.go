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

// TestFew plants two faults, with all nets but the long ones, and with one of these less.
func TestFew(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds forsctl several times")
	}
	for _, c := range []struct{ without, err string }{
		{"mutation,soak", ""},
		{"mutation,soak,judge", "caught by fewer than two nets: phases counted from 1; a gap off by one"},
	} {
		o := &options{without: c.without, only: "^phases counted|^a gap off"}
		var out strings.Builder
		err := o.run(t.Context(), &out)
		if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("without %s: %v, want %q", c.without, err, c.err)
		}
		if got := strings.Count(out.String(), " yes |"); c.err == "" && got != 4 {
			t.Errorf("%d catches, want 4:\n%s", got, out.String())
		}
	}
}
