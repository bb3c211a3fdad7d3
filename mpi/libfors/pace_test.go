package libfors

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
)

// TestPace: the period that fors_pace_next finds, from guesses that are too short or too long, costs
// at most two percent more than the best.
func TestPace(t *testing.T) {
	program := compile(t, slices.Concat([]string{"testdata/pace.c"}, sources(t), []string{"-lm"})...)
	rng := rand.New(rand.NewPCG(1, 2))
	var in bytes.Buffer
	var cases []string
	for range 200 {
		cases = append(cases, fmt.Sprintf("%d %g %g %g %g %g", 10+rng.IntN(400), 1e-6*(1+200*rng.Float64()), .3*rng.Float64(), 2+6*rng.Float64(), .01*rng.Float64(), .8+.5*rng.Float64()))
		fmt.Fprintln(&in, cases[len(cases)-1])
	}
	cmd := exec.Command(program)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines, sum, worst := bytes.NewReader(out), 0.0, 0.0
	for _, c := range cases {
		var x float64
		if _, err := fmt.Fscan(lines, &x); err != nil {
			t.Fatal(err)
		}
		if x > 1.02 {
			t.Errorf("phases, block, guard, slope, noise, guess %s: %.4f of the best", c, x)
		}
		sum, worst = sum+x, max(worst, x)
	}
	mean := sum / float64(len(cases))
	t.Logf("%.4f of the best on the mean, %.4f at worst", mean, worst)
	if mean > 1.01 {
		t.Errorf("%.4f of the best on the mean", mean)
	}
}
