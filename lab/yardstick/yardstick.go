// Package yardstick measures plans and tables of fixed fabrics, to detect a change that
// makes one of them worse. The figures in testdata are those of commit 8626402, or of a
// later version if that is better.
package yardstick

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// Fabrics is the number of fabrics.
const Fabrics = 200

// Names are the names of the figures that Measure returns. For bounds, higher is better;
// for all others, lower.
var Names = []string{"phases", "bound", "moved", "base phases", "base bound", "busiest"}

// None stands for a figure that a fabric does not have.
const None = -1

// all lets plans leave out any number of pairs.
var all = 1.0

// Measure makes the plans and tables of a fabric by its number, and returns their figures:
// the phases of the plan and their bound; how many pairs of servers it gives another LID than
// the plan of the fabric without damage; phases and bound of the plan for base LIDs; and the
// transfers over the busiest cable when all servers send to all base LIDs at once.
func Measure(ctx context.Context, t fabgen.Test, n int) (name string, figures []int, err error) {
	rng := rand.New(rand.NewPCG(34, uint64(n)))
	if n%5 < 3 {
		return two(ctx, t, rng)
	}
	return three(ctx, t, rng)
}

// two measures a fabric of two levels.
func two(ctx context.Context, t fabgen.Test, rng *rand.Rand) (name string, figures []int, err error) {
	s := fabgen.Spec{Spines: 3 + rng.IntN(8), Leaves: 3 + rng.IntN(8), Cables: 1 + rng.IntN(4)/3, Shuffle: rng.Uint64N(3)}
	for range s.Leaves {
		s.Hosts = append(s.Hosts, s.Spines-rng.IntN(3)/2*rng.IntN(3))
	}
	for 1<<s.LMC < s.Spines*s.Cables && rng.IntN(8) > 0 {
		s.LMC++
	}
	var dead [][2]int
	for range rng.IntN(6) {
		dead = append(dead, [2]int{rng.IntN(s.Leaves), rng.IntN(s.Spines * s.Cables)})
	}
	spine := -1
	if rng.IntN(5) == 0 {
		spine = rng.IntN(s.Spines)
	}
	name = fmt.Sprintf("FT(2;%d,%d) hosts %v cables %d LMC %d shuffle %d dead %v spine %d", s.Spines, s.Leaves, s.Hosts, s.Cables, s.LMC, s.Shuffle, dead, spine)
	plan := func(change func(f *topology.Fabric)) (*planner.Result, error) {
		return planner.Make(ctx, fabgen.Fitted(t, fabgen.Generate(s), change), planner.Settings{MaxUnreachable: &all})
	}
	whole, err := plan(nil)
	if err != nil {
		return name, nil, err
	}
	r, err := plan(func(f *topology.Fabric) {
		s.Cut(f, dead...)
		if spine >= 0 {
			_, _ = f.Fail(fmt.Sprintf("Spine%03d", spine))
		}
	})
	if err != nil {
		return name, nil, err
	}
	report := r.Report()
	figures = []int{report.Phases, report.LowerBound, moved(whole.Schedule.Table(1), r.Schedule.Table(1)), None, None, busiest(r.Tree, r.Tables)}
	if b := report.Base; b != nil {
		figures[3], figures[4] = b.Phases, b.LowerBound
	}
	return name, figures, nil
}

// three measures a fabric of three levels.
func three(ctx context.Context, _ fabgen.Test, rng *rand.Rand) (name string, figures []int, err error) {
	s := fabgen.TreeSpec{Pods: 2 + rng.IntN(3), Leaves: 2 + rng.IntN(2), Mids: 2 + rng.IntN(3), Tops: 1 + rng.IntN(4), Hosts: 2 + rng.IntN(3), LMC: uint8(rng.IntN(3)), Shuffle: rng.Uint64N(3)}
	name = fmt.Sprintf("%d pods of %d leaves, %d mids, %d tops a plane, %d hosts a leaf, LMC %d, shuffle %d", s.Pods, s.Leaves, s.Mids, s.Tops, s.Hosts, s.LMC, s.Shuffle)
	f := fabgen.GenerateTree(s)
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		return name, nil, err
	}
	plan := func(f *topology.Fabric) (*podplan.Result, error) {
		tree, err := topology.FitPods(f, base, nil)
		if err != nil {
			return nil, err
		}
		return podplan.Make(ctx, tree, podplan.Settings{MaxUnreachable: &all})
	}
	whole, err := plan(f)
	if err != nil {
		return name, nil, err
	}
	damage := s.Draw(rng, fabgen.Damage{LeafCables: rng.IntN(2), TopCables: rng.IntN(4), Tops: rng.IntN(5) / 4})
	f = fabgen.GenerateTree(s)
	for _, part := range damage {
		_, _ = f.Fail(part) // a cable may be drawn by both of its ends, or with a switch
	}
	name += fmt.Sprint(" without ", damage)
	r, err := plan(f)
	if err != nil {
		return name, nil, err
	}
	report := r.Report()
	figures = []int{report.Phases, report.LowerBound, moved(whole.Rows(1), r.Rows(1)), None, None, busiest(r.Tree.Exchange(), r.Tables)}
	if b := report.Base; b != nil {
		figures[3], figures[4] = b.Phases, b.LowerBound
	}
	return name, figures, nil
}

// moved counts the pairs of servers that two plans send by different LIDs.
func moved(a, b *phasetable.Table) (n int) {
	was := map[[2]ib.GUID]ib.LID{}
	each := func(t *phasetable.Table, do func(pair [2]ib.GUID, lid ib.LID)) {
		for i, d := range t.To {
			if d != phasetable.Idle {
				do([2]ib.GUID{t.Servers[i%len(t.Servers)].GUID, t.Servers[d].GUID}, t.DLID[i])
			}
		}
	}
	each(a, func(pair [2]ib.GUID, lid ib.LID) { was[pair] = lid })
	each(b, func(pair [2]ib.GUID, lid ib.LID) {
		if was[pair] != lid {
			n++
		}
	})
	return n
}

// busiest is how many transfers the busiest cable between switches carries when each server
// sends to the base LID of each other one at once.
func busiest(t *topology.FatTree, tables *lft.Tables) (most int) {
	load := map[topology.PortRef]int{}
	on := map[int32]int{} // [leaf's node] servers
	for _, i := range t.Servers {
		on[t.Hosts[i].At.Node]++
	}
	for _, i := range t.Servers {
		h := &t.Hosts[i]
		for node, senders := range on {
			for at := node; at != h.At.Node; {
				i := tables.Find(t.Fabric.Nodes[at].GUID)
				out := topology.PortRef{Node: at, Port: tables.Port(i, h.LID)}
				if out.Port == lft.NoPath {
					break
				}
				load[out] += senders
				at = t.Fabric.At(out).Peer
			}
		}
	}
	for _, n := range load {
		most = max(most, n)
	}
	return most
}
