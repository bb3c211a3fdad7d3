package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// damage is damage to the fabric of lhcb, and the number of phases that the plan for base
// LIDs then has.
type damage struct {
	name   string
	cables [][2]int // leaf, lane
	spine  string
	phases int
}

// damages returns the damages to try with LMC 5 or LMC 3, all of them if long.
func damages(lmc uint8) []damage {
	rng := rand.New(rand.NewPCG(9, 2021))
	var nine [][2]int // those of the demo
	for len(nine) < 9 {
		if c := [2]int{rng.IntN(18), rng.IntN(20)}; !slices.Contains(nine, c) {
			nine = append(nine, c)
		}
	}
	all := []damage{
		{"healthy", nil, "", 359},
		{"a cable", [][2]int{{7, 10}}, "", 360},
		{"two of a leaf", [][2]int{{7, 10}, {7, 13}}, "", 380},
		{"nine cables", nine, "", 380},
		{"a spine", nil, "Spine012", 360},
	}
	switch {
	case long:
		return all
	case lmc == 5:
		return []damage{all[0], all[2], all[4]}
	}
	return []damage{all[0], all[1], all[3]}
}

func (d damage) ports() (ports []ibsim.Port) {
	for _, c := range d.cables {
		ports = append(ports, ibsim.Port{Node: fmt.Sprintf("Leaf%03d", c[0]), Port: 21 + c[1]})
	}
	return ports
}

// do damages the fabric, or mends it.
func (d damage) do(ctx context.Context, s *ibsim.Sim, mend bool) error {
	all, node := s.UnlinkAll, s.UnlinkNode
	if mend {
		all, node = s.RelinkAll, s.RelinkNode
	}
	if d.spine != "" {
		return node(ctx, d.spine)
	}
	return all(ctx, d.ports())
}

// seen is satisfied when forsd sees the damage, or sees it mended.
func (d damage) seen(mended bool) func(*api.Topology) error {
	return func(t *api.Topology) error {
		if d.spine != "" {
			return SpinePresent(12, mended)(t)
		}
		state := "missing"
		if mended {
			state = "full"
		}
		for _, c := range d.cables {
			if err := Cable(c[0], c[1], state)(t); err != nil {
				return err
			}
		}
		return nil
	}
}

// phaseTimes is the duration of an exchange on the tables in sight, in phases of one
// undisturbed transfer.
func (s *Sight) phaseTimes(t *testing.T, rows []sim.Row) (sum int) {
	t.Helper()
	r, err := sim.Run(s.Tree.Fabric, s.Tables, rows)
	if err != nil || r.Lost > 0 {
		t.Fatalf("simulate: %v, %d transfers lost", err, r.Lost)
	}
	for _, most := range r.PerPhaseMax {
		sum += most
	}
	return sum
}

// onBaseLIDs are the transfers of a plan, each to the base LID of its destination.
func (s *Sight) onBaseLIDs(plan *phasetable.View) (rows []sim.Row) {
	base := map[ib.GUID]ib.LID{}
	for i := range s.Tree.Hosts {
		base[s.Tree.Hosts[i].GUID] = s.Tree.Hosts[i].LID
	}
	rows = sim.RowsOf(plan)
	for i := range rows {
		rows[i].DLID = base[rows[i].Dst]
	}
	return rows
}

// minHop is the duration of a linear shift on OpenSM's own tables, by damage.
func minHop(t *testing.T, lmc uint8) map[string]int {
	o := lhcb()
	o.LMC, o.Engine = lmc, "minhop"
	x := newSite(t, 2*time.Minute, o)
	x.ok(x.StartOpenSM(x.ctx))
	_, _, err := x.SM.WaitLog(x.ctx, ibsim.SubnetUp, 0)
	x.ok(err)
	whole, err := topology.NewBaseline(o.Fabric)
	x.ok(err)
	took := map[string]int{}
	for _, d := range damages(lmc) {
		x.ok(d.do(x.ctx, x.Sim, false), x.SM.Sweep(x.ctx))
		s, err := x.LookBy(x.ctx, whole)
		x.ok(err)
		took[d.name] = s.phaseTimes(t, sim.LinearShift(s.Tree))
		x.ok(d.do(x.ctx, x.Sim, true), x.SM.Sweep(x.ctx))
	}
	return took
}

// TestBaseLIDs damages the LHCb fabric, and checks the tables in the switches: the plan for
// base LIDs, walked by base LIDs, takes as many phases as documented; all transfers at once put no
// more than that on a cable; and a linear shift on them takes no longer than on OpenSM's own
// tables. LMC 5 has LIDs for all lanes, LMC 3 for fewer. FORS_LONG=1 has all damages with both.
func TestBaseLIDs(t *testing.T) {
	t.Parallel()
	for _, lmc := range []uint8{5, 3} {
		t.Run(fmt.Sprintf("LMC %d", lmc), func(t *testing.T) {
			t.Parallel()
			plain := minHop(t, lmc)
			o := lhcb()
			o.LMC = lmc
			x, sight := up(t, 3*time.Minute, o)
			for i, d := range damages(lmc) {
				if i > 0 {
					x.ok(d.do(x.ctx, x.Sim, false))
					x.settled(d.seen(false))
					sight = x.check()
				}
				plan, err := x.Client.BaseTable(x.ctx)
				x.ok(err)
				by, shift, most := sight.phaseTimes(t, sight.onBaseLIDs(plan)), sight.phaseTimes(t, sim.LinearShift(sight.Tree)), sight.Tables.Busiest(sight.Tree).Transfers
				t.Logf("%s: by the plan %d, a linear shift %d, on min-hop %d; %d transfers over the busiest cable at once", d.name, by, shift, plain[d.name], most)
				if by != d.phases || plan.Phases() != by || shift > plain[d.name] || most > by {
					t.Errorf("%s: %d phase times in %d phases, want %d; a linear shift takes %d, on min-hop %d; %d transfers over the busiest cable at once",
						d.name, by, plan.Phases(), d.phases, shift, plain[d.name], most)
				}
				if i > 0 {
					x.ok(d.do(x.ctx, x.Sim, true))
					x.settled(d.seen(true))
				}
			}
			x.noRoutingErrors()
		})
	}
}
