package main

import (
	"context"
	"fmt"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/packets"
	"github.com/forsd/forsd/topology"
)

// ways are the ways of exchange.c to exchange, with the pace in package packets, the throughputs
// that are comparable with that of SimGrid, and why others differ.
var ways = map[string]struct {
	pace               packets.Pace
	asPackets, asLoads bool
	why                string
}{
	"at-once": {packets.AtOnce, false, true, "packets: full buffers hold up packets for other outputs"},
	"in-step": {packets.Rendezvous, true, false, "sim: a barrier after each phase, no latency"},
	"ahead":   {packets.Pairwise, false, false, "phases meet, and sim has a barrier"},
	"clock":   {packets.Clock, true, true, ""},
}

// site is a fabric with tables, and its hosts in the order of ranks: leaf by leaf.
type site struct {
	fabric *topology.Fabric
	tables *lft.Tables
	hosts  []topology.EndPort
	list   []exchange
}

// exchange is one of a site's exchanges.
type exchange struct {
	tables string // whose, and the LIDs to which ranks send
	name   string
	how    string // of ways
	plan   bool   // by rows, and not a linear shift
	rows   []sim.Row
}

func newSite(f *topology.Fabric, tables *lft.Tables) *site {
	return &site{fabric: f, tables: tables, hosts: f.ConnectedHosts()}
}

// shift adds exchanges in the order of a linear shift.
func (s *site) shift(tables string) {
	rows := sim.HostShift(s.hosts)
	s.list = append(s.list, exchange{tables, "at once", "at-once", false, rows}, exchange{tables, "shift in step", "in-step", false, rows})
}

// byForsd has forsd's tables and plans, that on lanes if cables are dead.
func byForsd(ctx context.Context, spec fabgen.Spec, dead int) (*site, error) {
	spec.LMC = 5
	tree, err := spec.Fit(spec.DrawDead(1, dead)...)
	if err != nil {
		return nil, err
	}
	made, err := planner.Make(ctx, tree, planner.Settings{})
	if err != nil {
		return nil, err
	}
	if made.Base == nil {
		return nil, fmt.Errorf("planning for base LIDs failed: %v", made.Notes)
	}
	s := newSite(tree.Fabric, made.Tables)
	s.shift("forsd, base LIDs")
	if err := s.planned("forsd, base LIDs", made.Base); err != nil || dead == 0 {
		return s, err
	}
	return s, s.planned("forsd, lanes", made.Schedule)
}

// planned adds the exchanges of a plan.
func (s *site) planned(tables string, plan *planner.Schedule) error {
	rows, err := sim.RowsOfTable(plan.Table(0))
	if err != nil {
		return err
	}
	if plan.LIDs != 1 {
		s.list = append(s.list, exchange{tables, "at once", "at-once", true, rows})
	}
	for _, x := range [][2]string{{"plan in step", "in-step"}, {"plan, ahead", "ahead"}, {"plan by clock", "clock"}} {
		s.list = append(s.list, exchange{tables, x[0], x[1], true, rows})
	}
	return nil
}

// byMinHop has the tables that OpenSM's min-hop puts into the switches of a simulated fabric.
func byMinHop(ctx context.Context, spec fabgen.Spec, dead int) (*site, error) {
	f := fabgen.Generate(spec)
	spec.Cut(f, spec.DrawDead(1, dead)...)
	seen, tables, _, err := e2e.Routed(ctx, f, "minhop")
	if err != nil {
		return nil, err
	}
	s := newSite(seen, tables)
	s.shift("min-hop")
	return s, nil
}
