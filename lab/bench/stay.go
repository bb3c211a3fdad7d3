package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/forsd/forsd/fors"
)

// benchStay plans failures so that lanes stay, and afresh by the exact planner, in turns:
// the time of both, the percentage of pairs of different leaves with another lane than
// without failures, and the least possible percentage.
func benchStay(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\nlanes that stay, median of %d; lanes changed in %% of the pairs of different leaves\n", runs)
	fmt.Fprintln(w, "fabric\tphases\tms\tafresh ms\tratio\tchanged\tafresh\tmust\t")
	for _, r := range append(baseRows(), exactRow{name: "FT(2;32,32) 1F", tree: cut(fullTree(32, 32), 7, 10)}) {
		rotation := func() (*fors.Plan, error) { return fors.PlanRotation(context.Background(), r.tree) }
		stay, err := rotation()
		if err != nil {
			fmt.Fprintf(w, "%s\tnot by rotations\t\t\t\t\t\t\t\n", r.name)
			continue
		}
		afresh := func() *fors.Plan { return must(fors.PlanExact(context.Background(), r.tree)) }
		kept, anew := median(func() { _, _ = rotation() }), median(func() { afresh() })
		must, changed := strays(r.tree, stay)
		_, others := strays(r.tree, afresh())
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", r.name, stay.Phases, ms(kept.time), ms(anew.time), float64(kept.time)/float64(anew.time), changed, others, must)
	}
	w.Flush()
}

// strays is the share of the transfers between leaves, in percent, whose destination's
// own lane is dead, and of those that take another one.
func strays(t *fors.Tree, p *fors.Plan) (dead, others float64) {
	var leaf, slot []int
	for l, slots := range t.Slots {
		for _, α := range slots {
			leaf, slot = append(leaf, l), append(slot, α)
		}
	}
	all := 0
	for i, d := range p.To {
		if p.Lane[i] == fors.Local {
			continue
		}
		all++
		if own := slot[d]; int(p.Lane[i]) != own {
			others++
			if !t.Up[leaf[i%p.Servers]][own] || !t.Up[leaf[d]][own] {
				dead++
			}
		}
	}
	return 100 * dead / float64(all), 100 * others / float64(all)
}
