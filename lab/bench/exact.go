package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/forsd/forsd/fors"
)

// exactRow is a fabric that the exact planner is timed on.
type exactRow struct {
	name string
	tree *fors.Tree
	goal float64 // milliseconds; 0: no goal
}

// exactRows are the kinds of damage that goals are stated for.
func exactRows() []exactRow {
	three := fullTree(20, 18)
	for i, leaf := range []int{0, 5, 11} {
		cut(three, leaf, 3*i, 3*i+1, 3*i+2)
	}
	four := fullTree(20, 18)
	for leaf := range four.Up {
		cut(four, leaf, 2, 3, 11, 17)
	}
	ten, single := fullTree(20, 18), fullTree(20, 18)
	for k := range 10 {
		for leaf := range ten.Up {
			ten.Up[leaf][10+k] = leaf == 2*k%18 || leaf == 2*k%18+1
		}
	}
	for k := 1; k < 20; k++ {
		cut(single, 4, k)
	}
	return []exactRow{
		{"FT(2;20,18) 0F", fullTree(20, 18), 8},
		{"FT(2;20,18) 1F SW0", cut(fullTree(20, 18), 0, 0), 8},
		{"FT(2;20,18) 3F SW0", cut(fullTree(20, 18), 0, 0, 1, 2), 8},
		{"FT(2;20,18) 3F SW0,5,11", three, 8},
		{"FT(2;20,18) four spines", four, 8},
		{"326 hosts on 18 leaves 0F", populated(), 8},
		{"326 hosts on 18 leaves 3F", cut(populated(), 0, 7, 8, 9), 8},
		{"ten spines alive at two leaves each", ten, 12},
		{"one leaf with a single lane", single, 150},
		{"FT(2;32,32) 0F", fullTree(32, 32), 50},
		{"FT(2;32,32) 9F", cutAtRandom(fullTree(32, 32), 9), 50},
		{"FT(2;64,32) 0F", fullTree(64, 32), 180},
	}
}

// growingRows show the cost of a pair as fabrics grow.
func growingRows() []exactRow {
	var rows []exactRow
	for _, ft := range [][2]int{{8, 8}, {16, 16}, {24, 24}, {32, 32}, {48, 32}, {64, 32}} {
		rows = append(rows, exactRow{name: fmt.Sprintf("FT(2;%d,%d) 0F", ft[0], ft[1]), tree: fullTree(ft[0], ft[1])})
	}
	return rows
}

// benchExact times the exact planner alone, on two workers and on one. It also prints the
// processor time of two, garbage collection included, which a busy machine affects less.
func benchExact(out io.Writer, unit time.Duration) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\nthe planner alone, two workers, median of %d; ratios to one worker, and to the unit\n", runs)
	fmt.Fprintln(w, "fabric\tplanner\tphases\tms\tgoal\tCPU ms\tns/pair\tallocs\tKiB\tto one\tratio\t")
	for _, r := range slices.Concat(exactRows(), growingRows()) {
		benchRow(w, r, unit, "lanes", func() *fors.Plan { return must(fors.PlanExact(context.Background(), r.tree)) })
	}
	few := exactRow{"FT(2;20,18) 0F", fullTree(20, 18), 2}
	benchRow(w, few, unit, "groups: 1", func() *fors.Plan { return must(fors.PlanGroups(context.Background(), few.tree, 1)).Plan })
	for _, r := range baseRows() {
		wish := fors.Wish{Via: baseLanes(r.tree), Keep: true}
		benchRow(w, r, unit, "base LIDs", func() *fors.Plan { return must(fors.PlanOneLID(context.Background(), r.tree, wish)).Plan })
	}
	for _, r := range jobRows() {
		benchRow(w, r, unit, "job, base LIDs", func() *fors.Plan { return must(fors.PlanOneLID(context.Background(), r.tree, fors.Wish{})).Plan })
	}
	w.Flush()
}

// baseRows are the kinds of damage that plans for base LIDs are timed on.
func baseRows() []exactRow {
	spine := fullTree(20, 18)
	for leaf := range spine.Up {
		cut(spine, leaf, 10)
	}
	return []exactRow{
		{"FT(2;20,18) 0F", fullTree(20, 18), 0},
		{"FT(2;20,18) 1F", cut(fullTree(20, 18), 7, 10), 30},
		{"FT(2;20,18) 2F of a leaf", cut(fullTree(20, 18), 7, 10, 13), 0},
		{"FT(2;20,18) 9F", cutAtRandom(fullTree(20, 18), 9), 300},
		{"FT(2;20,18) one spine", spine, 0},
		{"FT(2;20,18) 40F", cutAtRandom(fullTree(20, 18), 40), 0},
		{"326 hosts on 18 leaves 3F", cut(populated(), 0, 7, 8, 9), 0},
		{"FT(2;32,32) 9F", cutAtRandom(fullTree(32, 32), 9), 0},
	}
}

// baseLanes are the lanes of base LIDs on tables without damage: α mod K.
func baseLanes(t *fors.Tree) (lanes []fors.Lane) {
	for range t.Slots {
		for _, slots := range t.Slots {
			for _, α := range slots {
				lanes = append(lanes, fors.Lane(α%t.Lanes))
			}
		}
	}
	return lanes
}

// benchRow prints the row of one planner.
func benchRow(w io.Writer, r exactRow, unit time.Duration, planner string, plan func() *fors.Plan) {
	p := plan()
	all := runtime.GOMAXPROCS(1)
	one := median(func() { plan() })
	runtime.GOMAXPROCS(2)
	before := processorTime()
	two := median(func() { plan() })
	busy := (processorTime() - before) / (runs + 1)
	runtime.GOMAXPROCS(all)
	goal := ""
	if r.goal > 0 {
		goal = fmt.Sprintf("%.0f", r.goal)
	}
	pairs := time.Duration(p.Servers * (p.Servers - 1))
	fmt.Fprintf(w, "%s\t%s\t%d\t%.2f\t%s\t%.2f\t%d\t%d\t%d\t%.2f\t%.2f\t\n", r.name, planner, p.Phases, ms(two.time), goal, ms(busy),
		two.time/pairs, two.allocs, two.bytes>>10, float64(two.time)/float64(one.time), float64(two.time)/float64(unit))
}

// processorTime is the time of the process in user mode so far.
func processorTime() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano())
}

// fullTree is FT(2;M0,M1): M0 servers and M0 living lanes on each of M1 leaves.
func fullTree(M0, M1 int) *fors.Tree {
	t := &fors.Tree{Lanes: M0}
	for range M1 {
		slots := make([]int, M0)
		for α := range slots {
			slots[α] = α
		}
		t.Slots, t.Up = append(t.Slots, slots), append(t.Up, slices.Repeat([]bool{true}, M0))
	}
	return t
}

// populated has 20, 18 or 16 servers on each of 18 leaves, 326 in all.
func populated() *fors.Tree {
	t := fullTree(20, 18)
	for leaf := range t.Slots {
		n := []int{20, 18, 16}[leaf%3]
		if leaf == 17 {
			n = 18
		}
		t.Slots[leaf] = t.Slots[leaf][:n]
	}
	return t
}

// cut takes lanes down at a leaf.
func cut(t *fors.Tree, leaf int, lanes ...int) *fors.Tree {
	for _, k := range lanes {
		t.Up[leaf][k] = false
	}
	return t
}

// cutAtRandom takes some cables down.
func cutAtRandom(t *fors.Tree, cables int) *fors.Tree {
	rng := rand.New(rand.NewPCG(1, 0))
	for cables > 0 {
		if leaf, k := rng.IntN(len(t.Up)), rng.IntN(t.Lanes); t.Up[leaf][k] {
			t.Up[leaf][k] = false
			cables--
		}
	}
	return t
}
