package view

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/topology"
)

// This file has the views of fat trees of three levels, whose tables follow from their plans.
// The controller's lanes are their cables: the cable of leaf l in plane j is l/j, and the cable
// of mid m in lane k is m/(planes+k).

// threeLevels is a fat tree of three levels, as the exchange of its servers; see FatTree.Pods.
type threeLevels struct{ tree *topology.FatTree }

func (k threeLevels) identity() string {
	le, t := binary.LittleEndian, k.tree.Pods
	facts := []byte(t.Fabric.Hash())
	note := func(g ib.GUID, cables []topology.Cable) {
		facts = le.AppendUint64(facts, uint64(g))
		for _, c := range cables {
			facts = append(facts, c.LeafPort, c.SpinePort, byte(c.State))
		}
	}
	for l := range t.Leaves {
		note(t.Leaves[l].GUID, t.Leaves[l].Cables)
	}
	for m := range t.Mids {
		note(t.Mids[m].GUID, t.Mids[m].Cables)
	}
	return digest(withHosts(facts, &t.Common))
}

func (k threeLevels) Held(lanes []controller.Lane) *topology.FatTree {
	if len(lanes) == 0 {
		return k.tree
	}
	return k.pods(lanes).Exchange()
}

func (k threeLevels) without(leaves []ib.GUID) kind {
	t := *k.tree.Pods
	t.Hosts, t.Servers = without(t.Hosts, func(leaf int) bool { return slices.Contains(leaves, t.Leaves[leaf].GUID) })
	return threeLevels{t.Exchange()}
}

func (k threeLevels) mayPlan(most float64) error {
	return podplan.Settings{MaxUnreachable: &most}.MayPlan(k.tree.Pods)
}

func (k threeLevels) Carries(tables *lft.Tables, plan *phasetable.View, hold []controller.Lane) error {
	return podplan.Holds(context.Background(), k.pods(hold), tables, plan)
}

func (k threeLevels) Order([]controller.Lane, planner.Settings) (Order, error) {
	return TablesFollow, nil
}

func (k threeLevels) LIDs() int { return min(podplan.EnoughLIDs, len(k.tree.Pods.Lanes)) }

func (k threeLevels) Members(names []string, skip bool) ([]planner.Member, []string, error) {
	return treeMembers(k.tree, names, skip)
}

// Stage returns the view whose plan and tables are for immediate use, or permanent. They may
// differ, and so the ID differs.
func (v *View) Stage(atOnce bool) *View {
	if atOnce == v.AtOnce {
		return v
	}
	out := *v
	if out.ID, out.AtOnce = v.Bare(), atOnce; atOnce {
		out.ID += "+at-once"
	}
	if out.ID != v.ID {
		out.routed = &routed{}
	}
	return &out
}

// Better returns the view for a new plan on three levels, which it makes from the plan made at
// once; nil if that one stays.
func (v *View) Better(ctx context.Context, hold []controller.Lane, by planner.Settings) (*View, error) {
	now, err := v.Route(ctx, hold, by)
	if err != nil || now.Plan == nil {
		return nil, err
	}
	made, err := podplan.Better(ctx, now.Plan.(PodPlan).Result)
	if err != nil || made == nil {
		return nil, err
	}
	full := v.Stage(false)
	full.Why = fmt.Sprintf("a new plan has %d phases, and tables of its own", made.Plan.Phases())
	full.routed.made = []Routes{routesOf(made, hold)}
	return full, nil
}

// After returns the view to plan for first while a plan is in force for last. On three levels,
// if different cables may be used than before, the part of the plan that still works is
// published immediately, and a new plan later. Withheld lists the lanes excluded from plans.
func (v *View) After(last *View, withheld func(*topology.FatTree) []controller.Lane) *View {
	if last == nil || last.Kind != controller.ThreeLevels || v.Kind != controller.ThreeLevels {
		return v
	}
	unused := func(v *View) []controller.Lane {
		all := slices.Concat(v.Down, withheld(v.Tree))
		slices.SortFunc(all, controller.Compare)
		return slices.Compact(all)
	}
	return v.Stage(last.AtOnce || !slices.Equal(unused(last), unused(v)))
}

// Bridge plans a fat tree of three levels on the entries that all tables have in common, using all
// LIDs of the servers.
func (v *View) Bridge(ctx context.Context, hold []controller.Lane, tables ...*lft.Tables) (Proposal, error) {
	r, err := podplan.On(ctx, v.kind.(threeLevels).pods(hold), lft.Common(tables...))
	if err != nil {
		return nil, err
	}
	p := PodPlan{r}
	return p, p.Check(tables...)
}

// pods returns the tree with some cables excluded from plans.
func (k threeLevels) pods(lanes []controller.Lane) *topology.PodTree {
	if len(lanes) == 0 {
		return k.tree.Pods
	}
	t := *k.tree.Pods
	t.Leaves, t.Mids = slices.Clone(t.Leaves), slices.Clone(t.Mids)
	for _, x := range lanes {
		switch k := x.Lane - t.Planes; {
		case k < 0 && x.Leaf < len(t.Leaves):
			t.Leaves[x.Leaf].Cables = slices.Clone(t.Leaves[x.Leaf].Cables)
			t.HoldLeaf(x.Leaf, x.Lane)
		case k >= 0 && k < len(t.Lanes) && x.Leaf < len(t.Mids):
			t.Mids[x.Leaf].Cables = slices.Clone(t.Mids[x.Leaf].Cables)
			t.HoldMid(x.Leaf, k)
		}
	}
	return &t
}

// route makes the tree's plan and the tables for it. If no plan can be made, the tables still
// route every LID that can be reached.
func (k threeLevels) route(ctx context.Context, v *View, hold []controller.Lane, by planner.Settings) (r Routes, err error) {
	t := k.pods(hold)
	made, err := podplan.Make(ctx, t, podplan.Settings{MaxUnreachable: by.MaxUnreachable, AtOnce: v.AtOnce})
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if err != nil {
		r.NoPlan = err
		r.Tables, err = podplan.Route(ctx, t)
		return r, err
	}
	return routesOf(made, hold), nil
}

// routesOf returns the routes of a plan and its tables.
func routesOf(made *podplan.Result, hold []controller.Lane) Routes {
	r := Routes{hold: slices.Clone(hold), Tables: made.Tables, Plan: PodPlan{made}, Load: made.Load, Notes: made.Notes}
	if made.Base != nil {
		r.Base = PodPlan{made.Base}
	}
	return r
}

// PodPlan is a plan on a fat tree of three levels.
type PodPlan struct{ *podplan.Result }

// Cautions returns the warnings of the plan.
func (p PodPlan) Cautions() []planner.Warning { return p.Warnings }

// Report describes the plan in the form for fat trees of two levels.
func (p PodPlan) Report() planner.Report { return podplan.Figures(p.Result) }

// Check verifies the plan on each of the tables.
func (p PodPlan) Check(tables ...*lft.Tables) error {
	for _, t := range tables {
		if err := p.Result.Check(context.Background(), t); err != nil {
			return fmt.Errorf("verify plan: %w", err)
		}
	}
	return nil
}

// Is reports whether the published plan is identical, byte for byte.
func (p PodPlan) Is(published *phasetable.View, _ *planner.Report) bool {
	if published.Phases() != p.Plan.Phases() || published.Servers() != len(p.Tree.Servers) {
		return false
	}
	t := p.Table(published.Epoch())
	t.Job, t.TopologyHash = published.Job(), published.TopologyHash()
	made, err := phasetable.New(t)
	return err == nil && bytes.Equal(made.Bytes(), published.Bytes())
}
