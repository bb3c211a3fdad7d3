package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestOneLID runs the LHCb fabric with LMC 0: every host has one LID for twenty
// lanes. Without failures the linear shift is enough; when a cable dies and comes
// back, tables change with the plan, and both are checked. Every plan holds on the
// tables of its time.
func TestOneLID(t *testing.T) {
	t.Parallel()
	o := lhcb()
	o.LMC = 0
	x, whole := up(t, 5*time.Minute, o)
	st, err := x.Client.Status(x.ctx)
	x.ok(err)
	if st.LMC != 0 || st.Phases != 359 || st.Engine != "shift" || !HasWarning(st, planner.LMCTooSmall) {
		t.Errorf("no failure: LMC %d, %d phases by %s, warnings %v", st.LMC, st.Phases, st.Engine, st.Warnings)
	}

	for _, c := range []struct{ leaf, lane int }{{3, 7}, {11, 0}} {
		at := whole.Tree.Leaves[c.leaf]
		port := int(at.Cables[c.lane].LeafPort)
		witness := x.witness(st.Epoch)
		x.ok(x.Sim.Unlink(x.ctx, at.Name, port))
		was := st.Epoch
		st = x.settled(Cable(c.leaf, c.lane, "missing"))
		x.ok(witness(st.Epoch))
		x.check()
		if st.Phases != 360 || st.Engine != "exact" || st.Epoch != was+1 || HasWarning(st, planner.PlanOverBound) {
			t.Errorf("%s port %d is down: epoch %d after %d, %d phases by %s, warnings %v", at.Name, port, st.Epoch, was, st.Phases, st.Engine, st.Warnings)
		}
		t.Logf("down: tables programmed after %.0f ms, read back after %.0f ms, published after %.0f ms", 1e3*st.LastEvent.ProgrammedSeconds, 1e3*st.LastEvent.ReadBackSeconds, 1e3*st.LastEvent.PublishedSeconds)

		x.ok(x.Sim.Relink(x.ctx, at.Name, port))
		was = st.Epoch
		st = x.settled(Cable(c.leaf, c.lane, "full"))
		x.unmoved(whole, x.check())
		if st.Phases != 359 || st.Engine != "shift" || st.Epoch != was+1 {
			t.Errorf("%s port %d is back: epoch %d after %d, %d phases by %s", at.Name, port, st.Epoch, was, st.Phases, st.Engine)
		}
		t.Logf("back: tables programmed after %.0f ms, read back after %.0f ms, published after %.0f ms", 1e3*st.LastEvent.ProgrammedSeconds, 1e3*st.LastEvent.ReadBackSeconds, 1e3*st.LastEvent.PublishedSeconds)
	}
	x.noRoutingErrors()
}

// TestLastLID runs a fabric whose largest LID begins a block of 64, which dump_fts does not
// read. forsd must still come to rest, and ibtracert, which asks the switches for the entries of
// one LID, finds the way to it.
func TestLastLID(t *testing.T) {
	t.Parallel()
	x, s := up(t, 3*time.Minute, Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, Hosts: []int{14, 14, 14, 14}})})
	lids := lft.LIDs(s.Tree.Fabric)
	last := lids[len(lids)-1]
	if last != 64 {
		t.Fatalf("the largest LID is %d, want 64", last)
	}
	read, err := x.ReadTables(x.ctx)
	x.ok(err)
	if read.Port(0, last) != lft.NoPath {
		t.Errorf("dump_fts reads LID %d now: what forsd adds to it is not needed any more", last)
	}
	for l := range s.Tree.Leaves {
		leaf := s.Tree.Fabric.Nodes[s.Tree.Leaves[l].Node]
		text, err := x.Sim.Run(x.ctx, x.options.Host, "ibtracert", "-n", fmt.Sprint(leaf.LID()), fmt.Sprint(last))
		x.ok(err)
		hops, err := s.Tables.Trace(s.Tree.Fabric, topology.PortRef{Node: s.Tree.Leaves[l].Node}, last)
		x.ok(err)
		var want, got []string // output ports
		for _, h := range hops[:len(hops)-1] {
			want = append(want, fmt.Sprint(h.Out))
		}
		for _, m := range regexp.MustCompile(`(?m)^\[(\d+)\] ->`).FindAllStringSubmatch(string(text), -1) {
			got = append(got, m[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s reaches LID %d over ports %v, want %v", leaf.Name, last, got, want)
		}
	}
}
