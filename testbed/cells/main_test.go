package main

import (
	"math"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/packets"
	"github.com/forsd/forsd/testbed/programs"
)

// TestCells simulates some cells on two and on three levels. In none does the choice lose. Where
// packets block each other, phases by the clock are ahead of everything at once with equal blocks,
// a dead cable, and no jitter.
func TestCells(t *testing.T) {
	p := compiled(t)
	for _, o := range []options{
		{spec: fabgen.Spec{Spines: 6, Leaves: 6, LMC: 5}, dead: []int{0, 1}, bytes: []int{1 << 14}, jitters: []float64{0, .1}, every: 1},
		{pods: 4, dead: []int{2}, bytes: []int{1 << 16}, jitters: []float64{0}, every: 5},
	} {
		all, err := o.cells(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			if err := c.simulate(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := choose(t.Context(), p.choice, all); err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			t.Log(c.record())
			if c.share() < leastChosen {
				t.Errorf("%v: %.3f of the better of the others", c.record()[:6], c.share())
			}
			if c.queues == packets.FIFO && c.name == "equal" && c.part == "all" && c.dead == 1 && c.jitter == 0 && c.shares[byClock] < c.shares[atOnce] {
				t.Errorf("%v: %.3f by the clock, %.3f at once", c.record()[:6], c.shares[byClock], c.shares[atOnce])
			}
		}
	}
}

// TestMessages: parts exchange among themselves, by the plan and in MPI's own order the same
// blocks.
func TestMessages(t *testing.T) {
	o := options{spec: fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}, dead: []int{0}, bytes: []int{1 << 14}, jitters: []float64{0}, every: 1}
	all, err := o.cells(t.Context(), compiled(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		blocks := map[packets.Message]int{}
		planned, shifted := c.messages(c.steps), c.messages(c.shifted())
		sum, members := 0.0, map[int]int{}
		for _, m := range planned {
			m.Phase = 0
			blocks[m]++
			sum += float64(m.Bytes)
		}
		for _, m := range shifted {
			m.Phase = 0
			blocks[m]--
		}
		for _, n := range blocks {
			if n != 0 {
				t.Fatalf("%v: the blocks differ", c.record()[:6])
			}
		}
		for _, job := range c.jobs {
			members[job]++
		}
		pairs := members[0]*(members[0]-1) + members[1]*(members[1]-1)
		want := map[string]float64{"equal": 1, "lognormal": 1, "sparse": .2, "popular": 1./6 + 5./6/8}[c.name] * float64(pairs) * float64(c.bytes)
		if len(planned) != pairs || len(shifted) != pairs || math.Abs(sum/want-1) > 4/math.Sqrt(float64(pairs)) {
			t.Errorf("%v: %d and %d blocks of %.0f bytes together, want %d of %.0f", c.record()[:6], len(planned), len(shifted), sum, pairs, want)
		}
	}
}

// TestBeside: with a dead cable everything at once is slower on the tables of OpenSM's min-hop
// than on forsd's, and adaptive switches that are late are not faster than ideal ones where
// packets block each other.
func TestBeside(t *testing.T) {
	p := compiled(t, "opensm", "ibsim")
	o := options{spec: fabgen.Spec{Spines: 4, Leaves: 4, LMC: 3}}
	own, err := o.site(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	minHop, err := o.byMinHop(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, queues := range []packets.Queues{packets.VOQ, packets.FIFO} {
		c := &cell{site: own, dead: 1, queues: queues, pattern: patterns[0], part: parts[0].name, jobs: make([]int, len(own.hosts)), steps: own.plan, bytes: 1 << 16}
		shares, err := c.beside(t.Context(), p.choice, minHop, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(queues, shares, c.shares, c.chosen)
		if shares[0] > 0.9*c.shares[atOnce] || shares[2] > 1.02*shares[1] || shares[1] < .3 {
			t.Errorf("%v: %.3f by min-hop, %.3f by adaptive switches, %.3f if late, %.3f by forsd", queues, shares[0], shares[1], shares[2], c.shares[atOnce])
		}
	}
}

// compiled is the shim's parts as programs.
func compiled(t *testing.T, more ...string) *shim {
	programs.Needs(t, append(more, "mpicc")...)
	p, err := compile(t.Context(), "../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return p
}
