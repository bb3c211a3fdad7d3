package ocs

import (
	"math"
	"os"
	"testing"
)

// TestReference holds Spectra, the baseline and Eclipse to the reference's ratios,
// within 3 %. FORS_LONG=1 takes fifty matrices rather than ten.
func TestReference(t *testing.T) {
	seeds := 10
	if os.Getenv("FORS_LONG") != "" {
		seeds = 50
	}
	rows, err := Reference(t.Context(), seeds, false, func() {})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		t.Logf("s=%d δ=%v: %+v", r.Switches, r.Delta, r.Got)
		for _, x := range []struct {
			what      string
			got, want float64
		}{{"Spectra to the bound", r.Got.Spectra, r.Want.Spectra}, {"the baseline to Spectra", r.Got.Baseline, r.Want.Baseline}, {"Eclipse to Spectra", r.Got.Eclipse, r.Want.Eclipse}} {
			if x.want > 0 && math.Abs(x.got/x.want-1) > 0.03 {
				t.Errorf("s=%d δ=%v: %s is %.3f, want %.3f within 3 %%", r.Switches, r.Delta, x.what, x.got, x.want)
			}
		}
		if r.Delta == 0.001 && r.Got.Eclipse >= 1 {
			t.Errorf("s=%d δ=%v: Eclipse takes %.3f of Spectra, want less", r.Switches, r.Delta, r.Got.Eclipse)
		}
	}
}
