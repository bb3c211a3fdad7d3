// Command ablate leaves the optical planners' heuristics out, one at a time, and measures the
// fixed sets of forslab sets again. The tree itself is not changed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/forsd/forsd/internal/command"
)

// heuristic is a part of a planner, and an edit of the source that leaves it out.
type heuristic struct {
	name, sets string // sets: the part of forslab sets that it is for
	file       string
	old, new   string // old is in the file once
}

const (
	best  = "optical/ocs/best.go"
	steps = "optical/photonic/ladders.go"
	climb = "optical/photonic/make.go"
)

var heuristics = []heuristic{
	{"colouring by weights", "ocs", best, "s.lighten(ctx, k)\n\tb.offer", "b.offer"},
	{"variations", "ocs", best, "mostVariations = 16", "mostVariations = 0"},
	{"overflow", "ocs", best, "x.overflow(b.δ)", ""},
	{"balance", "ocs", "optical/ocs/balance.go", "range 16 * len(p.load)", "range 0 * len(p.load)"},
	{"apart", "ocs", best, "\t\ts.apart()\n", ""},
	{"starts less and eclipse", "ocs", best, "c, p, err := less(ctx, d, b.o)", "if true {\n\t\treturn nil\n\t}\n\tc, p, err := less(ctx, d, b.o)"},
	{"published sequences", "photonic", steps, "o.Method == Paper || o.Method == Auto", "o.Method == Paper"},
	{"Kautz meshes, spread", "photonic", steps, "if explicit {", "if explicit && o.Method != Auto && o.Method != Carry {"},
	{"Cayley graphs", "photonic", steps, "if explicit || k > 1", "if k < 0 && k > 1"},
	{"last links shared", "photonic", climb, "best = cheaper(best, planLeftover(in, best))", ""},
	{"matchings", "photonic", climb, "(d == 0 || d == in.direct()) {\n\t\tif best,", "d < 0 {\n\t\tif best,"},
	{"MixNet", "photonic", climb, "if o.Family == \"\" {\n\t\tp, err := planLargest", "if o.Family != o.Family {\n\t\tp, err := planLargest"},
	{"relabelling", "photonic", "optical/photonic/varied.go", "if !o.Relabel {", "if true {"},
}

func main() {
	oneIn := flag.Int("one-in", 7, "plan one case in so many")
	only := flag.String("only", "", "only heuristics with this in their planners and names")
	flag.Parse()
	command.Main("ablate", func(ctx context.Context) error { return run(ctx, *oneIn, *only) })
}

// run measures all sets of the heuristics' planners, and then without each heuristic.
func run(ctx context.Context, oneIn int, only string) error {
	dir, err := os.MkdirTemp("", "ablate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	measured := map[string]bool{}
	for _, h := range heuristics {
		if !strings.Contains(h.sets+" "+h.name, only) {
			continue
		}
		list := []heuristic{{name: "nothing left out", sets: h.sets}, h}
		if measured[h.sets] {
			list = list[1:]
		}
		measured[h.sets] = true
		for _, h := range list {
			if err := h.measure(ctx, dir, oneIn); err != nil {
				return fmt.Errorf("without %s: %w", h.name, err)
			}
		}
	}
	return nil
}

// measure builds forslab without a heuristic and prints its results on the sets.
func (h *heuristic) measure(ctx context.Context, dir string, oneIn int) error {
	program := filepath.Join(dir, "forslab")
	build := []string{"build", "-o", program}
	if h.file != "" {
		text, err := h.without(".")
		if err != nil {
			return err
		}
		edited, overlay := filepath.Join(dir, "edited.go"), filepath.Join(dir, "overlay.json")
		if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
			return err
		}
		places, err := json.Marshal(map[string]map[string]string{"Replace": {h.file: edited}})
		if err != nil {
			return err
		}
		if err := os.WriteFile(overlay, places, 0o600); err != nil {
			return err
		}
		build = append(build, "-overlay", overlay)
	}
	fmt.Println(h.name)
	for _, c := range [][]string{slices.Concat([]string{"go"}, build, []string{"./cmd/forslab"}), {program, "sets", "--only", h.sets, "--one-in", strconv.Itoa(oneIn)}} {
		cmd := exec.CommandContext(ctx, c[0], c[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	return nil
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
