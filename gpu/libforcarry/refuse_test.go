package libforcarry

import (
	"fmt"
	"strings"
	"testing"
)

// Ranks refuse alike what they cannot do, and say why.
func TestRefuses(t *testing.T) {
	small := job{servers: 2, gpus: 2, tokens: 8, choices: 3, experts: 8, row: 40, frames: 40, seed: 5, elements: "float", rate: 1 << 30}
	whole := func(rank int) []int { return []int{rank / 2 * 2, rank/2*2 + 1} }
	for name, x := range map[string]struct {
		change func(*job)
		want   string
	}{
		"a rank without a NIC":   {func(j *job) { j.without = 3 }, "open: -3 rank 2 has no verbs device"},
		"other options":          {func(j *job) { j.env = []string{"FORCARRY_BAD=1"} }, "open: -1 ranks "},
		"rows":                   {func(j *job) { j.env = []string{"FORCARRY_ROWS=2"} }, "dispatch: -4 exchange 1: rank "},
		"slots":                  {func(j *job) { j.env = []string{"FORCARRY_SLOTS=1"} }, "dispatch: -4 exchange 1 takes more than the 1 rows of a NIC"},
		"no NIC left":            {func(j *job) { j.breaks = []stop{{0, 7, "d3", whole(2), false, false}} }, "-5 "},
		"a process is killed":    {func(j *job) { j.breaks = []stop{{0, 7, "c3", []int{3}, true, false}} }, "-6 "},
		"a whole server is gone": {func(j *job) { j.breaks = []stop{{0, 7, "b", whole(2), true, false}} }, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			j := small
			j.env = []string{"FORCARRY_PATIENCE=3"}
			x.change(&j)
			found, killed := 0, 0
			for r, line := range run(t, quick, j) {
				_, code, _ := strings.Cut(line, ": ")
				switch {
				case len(j.breaks) > 0 && j.breaks[0].process && strings.Contains(fmt.Sprint(j.breaks[0].nics), fmt.Sprint(r)):
					killed++
				case strings.HasPrefix(line, x.want), len(j.breaks) > 0 && strings.HasPrefix(code, x.want):
					found++
				case len(j.breaks) == 0 || !strings.HasPrefix(code, "-7 "): // another has said why
					t.Errorf("rank %d ends with %q, want %q", r, line, x.want)
				}
			}
			if found == 0 || len(j.breaks) == 0 && found != 4 {
				t.Errorf("%d ranks say %q", found, x.want)
			}
			t.Logf("%d ranks say %q, %d were killed", found, x.want, killed)
		})
	}
}

// The same frames with the sanitizers of the library and of the program.
func TestSanitized(t *testing.T) {
	j := job{servers: 3, gpus: 2, tokens: 6, choices: 3, experts: 12, row: 30, frames: 12, seed: 6, elements: "float", rate: 1 << 30,
		breaks: []stop{{1, 2, "b", []int{3}, false, false}, {2, 5, "d4", []int{0}, false, false}, {0, 6, "x2", []int{5}, false, false}}}
	if c := must(t, checked, j); c.dead != 3 || c.repeats == 0 {
		t.Errorf("%+v", c)
	}
}

// After a frame that exceeds the capacity ranks go on.
func TestGoesOn(t *testing.T) {
	j := job{servers: 2, gpus: 2, tokens: 8, choices: 3, experts: 8, row: 40, frames: 40, seed: 7, elements: "float", rate: 1 << 30, env: []string{"FORCARRY_ROWS=16", "FORCARRY_GO_ON=1"}}
	if c := must(t, quick, j); c.frames == int64(j.frames) || c.frames == 0 {
		t.Errorf("%d of %d frames are carried out", c.frames, j.frames)
	}
}

// A cable between switches dies, over which tables still lead: the frame is carried out by NICs that
// reach each other.
func TestCableDies(t *testing.T) {
	j := job{servers: 3, gpus: 4, tokens: 8, choices: 3, experts: 12, row: 40, frames: 12, seed: 8, elements: "float", rate: 1 << 30,
		breaks: []stop{{rank: 5, frame: 4, moment: "d3", cable: true}}}
	if c := must(t, quick, j); c.dead != 3 { // one of each leaf, of the lane of the cable
		t.Errorf("%+v", c)
	}
}

func TestPython(t *testing.T) {
	t.Setenv("PYTHONPATH", ".:../libforgpu")
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	rows := 0
	for r, line := range run(t, quick, job{servers: 2, gpus: 2, python: "testdata/ranks.py"}) {
		var own, sums int
		if n, _ := fmt.Sscanf(line, "rows %d sums %d", &own, &sums); n != 2 {
			t.Errorf("rank %d ends with %q", r, line)
		}
		rows += own
	}
	if rows == 0 {
		t.Error("nothing has been checked")
	}
}
