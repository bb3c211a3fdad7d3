package papers

import (
	"math"
	"os"
	"testing"

	"github.com/forsd/forsd/optical/ocs"
)

// TestReference compares Spectra, the baseline and Eclipse with the reference's ratios,
// within 3 %, on enough matrices for standard errors of our means of at most 1 %: the
// baseline's ratio has a standard deviation of 5 to 9 %, Eclipse's of 1 to 5 %.
// FORS_LONG=1 takes 200 matrices for all.
func TestReference(t *testing.T) {
	for _, c := range []struct {
		method ocs.Method
		seeds  int
	}{{Less, 100}, {ocs.Eclipse, 20}} {
		if os.Getenv("FORS_LONG") != "" {
			c.seeds = 200
		}
		rows, err := Reference(t.Context(), c.seeds, []ocs.Method{c.method}, func() {})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			t.Logf("s=%d δ=%v, %d matrices: %.4f, standard errors %.4f", r.Switches, r.Delta, c.seeds, r.Got, r.Error)
			for k, name := range [...]string{"Spectra to the bound", "the baseline to Spectra", "Eclipse to Spectra"} {
				got, want, off := *r.Got.fields()[k], *r.Want.fields()[k], *r.Error.fields()[k]
				if got == 0 || want == 0 {
					continue
				}
				if math.Abs(got/want-1) > 0.03 {
					t.Errorf("s=%d δ=%v: %s is %.3f, want %.3f within 3 %%", r.Switches, r.Delta, name, got, want)
				}
				if off > 0.01*got {
					t.Errorf("s=%d δ=%v: the standard error of %s is %.3f, want at most 1 %% of %.3f", r.Switches, r.Delta, name, off, got)
				}
			}
			if r.Delta == 0.001 && r.Got.Eclipse+3*r.Error.Eclipse >= 1 {
				t.Errorf("s=%d δ=%v: Eclipse takes %.3f of Spectra, want less", r.Switches, r.Delta, r.Got.Eclipse)
			}
		}
	}
}

// TestMeans takes means and standard errors of three numbers by hand.
func TestMeans(t *testing.T) {
	mean, off := means([]Ratios{{Spectra: 1}, {Spectra: 2}, {Spectra: 6}})
	if mean.Spectra != 3 || math.Abs(off.Spectra-math.Sqrt(7./3)) > 1e-12 || mean.Best != 0 || off.Best != 0 {
		t.Errorf("means %+v, standard errors %+v; want 3 and √(7/3), and 0", mean, off)
	}
	if _, off := means([]Ratios{{Spectra: 1}}); off != (Ratios{}) {
		t.Errorf("standard errors %+v of one matrix, want 0", off)
	}
}
