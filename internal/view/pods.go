package view

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/topology"
)

// This file has the views of fat trees of three levels, whose tables follow from their plans.
// The controller's lanes are their cables: the cable of leaf l in plane j is l/j, and the cable
// of mid m in lane k is m/(planes+k).

// newPods fits the fabric to a baseline of three levels.
func newPods(f *topology.Fabric, b *topology.PodBaseline, exclude *regexp.Regexp) (*View, error) {
	t, err := topology.FitPods(f, b, exclude)
	if err != nil {
		return nil, err
	}
	if len(t.Servers) == 0 {
		return nil, noServer(f)
	}
	v := &View{Kind: controller.ThreeLevels, Fabric: f, Tree: t.Exchange(), Pods: t, routed: &routed{}}
	for _, x := range exclusions.Links(v.Tree) {
		if x.State == topology.Missing || x.State == topology.Degraded {
			v.Down = append(v.Down, x.Lane)
		}
	}
	slices.SortFunc(v.Down, controller.Compare)
	v.ID = podIdentity(t)
	return v, nil
}

// podIdentity is identity for a tree of three levels.
func podIdentity(t *topology.PodTree) string {
	le := binary.LittleEndian
	facts := []byte(t.Fabric.Hash())
	note := func(g ib.GUID, cables []topology.UpCable) {
		facts = le.AppendUint64(facts, uint64(g))
		for _, c := range cables {
			facts = append(facts, c.Port, c.PeerPort, byte(c.State))
		}
	}
	for l := range t.Leaves {
		note(t.Leaves[l].GUID, t.Leaves[l].Cables)
	}
	for m := range t.Mids {
		note(t.Mids[m].GUID, t.Mids[m].Cables)
	}
	return digest(withHosts(facts, t.Hosts))
}

// Stage returns a view of three levels whose plan and tables are for immediate use, or
// permanent. They may differ, and so the ID differs.
func (v *View) Stage(atOnce bool) *View {
	out := *v
	if out.ID, out.AtOnce = v.Bare(), atOnce; atOnce {
		out.ID += "+at-once"
	}
	if out.ID != v.ID {
		out.routed = &routed{}
	}
	return &out
}

// After returns the view to plan for first while a plan is in force for last. On three levels,
// if different cables may be used than before, the part of the plan that still works is
// published immediately, and a new plan later. Withheld lists the lanes excluded from plans.
func (v *View) After(last *View, withheld func(*topology.FatTree) []controller.Lane) *View {
	if v.Pods == nil || last == nil || last.Pods == nil {
		return v
	}
	unused := func(v *View) []controller.Lane {
		all := slices.Concat(v.Down, withheld(v.Tree))
		slices.SortFunc(all, controller.Compare)
		return slices.Compact(all)
	}
	return v.Stage(last.AtOnce || !slices.Equal(unused(last), unused(v)))
}

// Bridge plans on the entries that all tables have in common, using all LIDs of the servers.
func (v *View) Bridge(ctx context.Context, hold []controller.Lane, tables ...*lft.Tables) (Proposal, error) {
	r, err := podplan.On(ctx, v.heldPods(hold), lft.Common(tables...))
	if err != nil {
		return nil, err
	}
	p := PodPlan{r}
	return p, p.Check(tables...)
}

// podsWithout is Without for three levels.
func (v *View) podsWithout(leaves []ib.GUID) *View {
	t := *v.Pods
	t.Hosts, t.Servers = without(t.Hosts, func(leaf int) bool { return slices.Contains(leaves, t.Leaves[leaf].GUID) })
	out := *v
	out.Pods, out.Tree, out.ID, out.routed = &t, t.Exchange(), podIdentity(&t), &routed{}
	return out.Stage(v.AtOnce)
}

// LIDs returns how many LIDs of a server the view's plans use: one for each lane, or on three
// levels at most podplan.EnoughLIDs. Without a tree it returns 0.
func (v *View) LIDs() int {
	switch {
	case v.Tree == nil:
		return 0
	case v.Pods != nil:
		return min(podplan.EnoughLIDs, len(v.Pods.Lanes))
	}
	return v.Tree.Lanes
}

// heldPods returns the tree with some cables excluded from plans.
func (v *View) heldPods(lanes []controller.Lane) *topology.PodTree {
	if len(lanes) == 0 {
		return v.Pods
	}
	t := *v.Pods
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

// routePods makes the tree's plan and the tables for it. If no plan can be made, the tables
// still route every LID that can be reached.
func (v *View) routePods(ctx context.Context, hold []controller.Lane, by planner.Settings) (r Routes, err error) {
	t := v.heldPods(hold)
	made, err := podplan.Make(ctx, t, podplan.Settings{MaxUnreachable: by.MaxUnreachable, AtOnce: v.AtOnce})
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if err != nil {
		r.NoPlan = err
		r.Tables, err = podplan.Route(ctx, t)
		return r, err
	}
	r.Tables, r.Plan, r.Load, r.Notes = made.Tables, PodPlan{made}, made.Load, made.Notes
	if made.Base != nil {
		r.Base = PodPlan{made.Base}
	}
	return r, nil
}

// PodPlan is a plan on a fat tree of three levels.
type PodPlan struct{ *podplan.Result }

// Cautions returns the warnings of the plan.
func (p PodPlan) Cautions() []planner.Warning { return p.Warnings }

// Report describes the plan in the form for fat trees of two levels, with the top switches as
// spines.
func (p PodPlan) Report() planner.Report {
	r := p.Result.Report()
	return planner.Report{Version: r.Version, Summary: r.Summary, Size: phasetable.Size{Servers: r.Servers, Leaves: r.Leaves, Spines: len(p.Tree.Tops), Lanes: r.Lanes, LMC: r.LMC},
		LIDs: planner.LIDs(r.LIDs), Proof: r.Proof, Group: r.Group, Blocks: r.Blocks, Warnings: r.Warnings, PlanSeconds: r.PlanSeconds, TopologyHash: r.TopologyHash}
}

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
