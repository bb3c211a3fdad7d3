// Command ablate leaves the planners' heuristics out, one at a time, and measures the fixed sets
// of forslab sets again. The tree itself is not changed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lab/papers"
)

// heuristic is a part of a planner, and an edit of the source that leaves it out.
type heuristic struct {
	name, sets string // sets: the part of forslab sets that it is for
	file       string
	old, new   string // old is in the file once
}

const (
	best  = "optical/ocs/best.go"
	peel  = "optical/ocs/decompose.go"
	steps = "optical/photonic/ladders.go"
	climb = "optical/photonic/make.go"
)

var heuristics = []heuristic{
	{"exchange of entries", "ocs", best, "if part > 0 {", "if part > 1000 {"},
	{"other decompositions", "ocs", peel, "{{0.25, 0.5, 0}, {0.1, 0.5, 0}, {0.25, 0, 0}, {0.1, 0.5, 1}, {0.1, 0.5, 2}, {0.1, 0.5, 3}}", "{}"},
	{"levels", "ocs", peel, "m.levels = d.levels()", "_ = d.levels"},
	{"colouring by weights", "ocs", best, "s.lighten(ctx, k)\n\tb.offer", "b.offer"},
	{"variations", "ocs", best, "mostVariations = 16", "mostVariations = 0"},
	{"eclipse", "ocs", best, "c, err = eclipse(ctx, d, b.o.Delta, 0, b.o.Switches, b.makespan); c != nil && err == nil", "false"},
	{"overflow", "ocs", best, "x.overflow(b.δ)", ""},
	{"balance", "ocs", "optical/ocs/balance.go", "range 16 * len(p.load)", "range 0 * len(p.load)"},
	{"shifts without waiting", "photonic", "optical/photonic/steps.go", "[][]int{append(slices.Clone(last), a), slices.Clone(s.alone)}", "[][]int{append(slices.Clone(last), a)}"},
	{"Kautz graphs", "photonic", steps, "in.Sizes == nil && (o.Family == \"\" || o.Family == \"kautz\")", "in.Sizes == nil && o.Family == \"kautz\""},
	{"Cayley graphs", "photonic", steps, "(o.Family == \"\" || o.Family == \"cayley\")", "o.Family == \"cayley\""},
	{"one topology a class", "photonic", steps, "if k > 1 {\n\t\t\tlist", "if k < 1 {\n\t\t\tlist"},
	{"last links shared", "photonic", climb, "best = cheaper(best, planLeftover(in, best))", ""},
	{"matchings", "photonic", climb, "if in.Sizes != nil && o.allow", "if in.GPUs < 0 && o.allow"},
	{"relabelling", "photonic", "optical/photonic/varied.go", "if o.Relabel {", "if false {"},
}

func main() {
	oneIn := flag.Int("one-in", 7, "plan one case in so many")
	only := flag.String("only", "", "only heuristics with this in their planners and names")
	flag.Parse()
	command.Main("ablate", func(ctx context.Context) error { return run(ctx, *oneIn, *only) })
}

// run measures all sets of the heuristics' planners, and then without each heuristic. It
// prints which plans are longer without it, the mean and the worst case, and the processor
// time with it and without.
func run(ctx context.Context, oneIn int, only string) error {
	dir, err := os.MkdirTemp("", "ablate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	with := map[string][]papers.SetRow{}
	for _, h := range append(trees, heuristics...) {
		if !strings.Contains(h.sets+" "+h.name, only) {
			continue
		}
		if with[h.sets] == nil {
			all := heuristic{sets: h.sets}
			if with[h.sets], err = all.measure(ctx, dir, oneIn); err != nil {
				return err
			}
		}
		rows, err := h.measure(ctx, dir, oneIn)
		if err != nil {
			return fmt.Errorf("without %s: %w", h.name, err)
		}
		fmt.Println(h.name)
		changed, before, now := false, 0., 0.
		for i, r := range rows {
			was, mean, most := with[h.sets][i], 0.0, 0.0
			for j, x := range r.Times {
				mean, most = mean+x/was.Times[j]/float64(len(r.Times)), max(most, x/was.Times[j])
			}
			before, now = before+was.CPUMS, now+r.CPUMS
			if change := fmt.Sprintf("%+.3f %%, at most %+.2f %%", 100*(mean-1), 100*(most-1)); change != "+0.000 %, at most +0.00 %" && change != "-0.000 %, at most +0.00 %" {
				fmt.Printf("  %-36s %s\n", r.Set, change)
				changed = true
			}
		}
		if !changed {
			fmt.Println("  nothing changes")
		}
		fmt.Printf("  CPU %.0f and %.0f ms, over one case of each set\n", before, now)
	}
	return nil
}

// measure builds forslab without a heuristic and returns its results on the sets.
func (h *heuristic) measure(ctx context.Context, dir string, oneIn int) ([]papers.SetRow, error) {
	program := filepath.Join(dir, "forslab")
	build := []string{"build", "-o", program}
	if h.file != "" {
		text, err := h.without(".")
		if err != nil {
			return nil, err
		}
		edited, overlay := filepath.Join(dir, "edited.go"), filepath.Join(dir, "overlay.json")
		if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
			return nil, err
		}
		places, err := json.Marshal(map[string]map[string]string{"Replace": {h.file: edited}})
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(overlay, places, 0o600); err != nil {
			return nil, err
		}
		build = append(build, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(build, "./cmd/forslab")...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	cmd = exec.CommandContext(ctx, program, "sets", "--only", h.sets, "--one-in", strconv.Itoa(oneIn), "--json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var got struct{ Rows []papers.SetRow }
	return got.Rows, json.Unmarshal(out, &got)
}

// without is the text of the heuristic's file under root without it.
func (h *heuristic) without(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, h.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), h.old); n != 1 {
		return "", fmt.Errorf("%s has %q %d times: want once", h.file, h.old, n)
	}
	return strings.Replace(string(text), h.old, h.new, 1), nil
}
