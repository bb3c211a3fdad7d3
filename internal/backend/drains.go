package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// drains lists the drains of some parts in the API's form; nil means all parts.
func (b *Backend) drains(parts []exclusions.Part) []api.Drain {
	out := []api.Drain{}
	now := b.State.Now()
	v, list := now.Latest, now.Drains
	var links []exclusions.Link
	if v != nil && v.Tree != nil && len(list) > 0 {
		links = exclusions.Links(v.Tree)
	}
	for i := range list {
		d := &list[i]
		if parts != nil && !slices.Contains(parts, d.Part) {
			continue
		}
		shown := d.APIView()
		for _, c := range exclusions.DrainedCables(links, list[i:i+1]) {
			shown.Cables = append(shown.Cables, api.DrainedCable{Leaf: c.GUID, Port: c.Port})
		}
		out = append(out, shown)
	}
	return out
}

// drainable returns the state now, and an error if parts of its fabric cannot be drained.
func (b *Backend) drainable() (*state.State, error) {
	now := b.State.Now()
	switch v := now.Latest; {
	case v == nil:
		return now, errNoDump
	case v.Kind == controller.OwnRoutes:
		return now, v.NoTree("nothing can be taken out of them")
	}
	return now, nil
}

// drain answers POST /v1/drains. It reports the cost of draining parts, and drains them unless
// only the cost was requested.
func (b *Backend) drain(r *http.Request) (any, error) {
	var q api.DrainRequest
	if err := server.ReadJSON(r, &q); err != nil {
		return nil, err
	}
	if err := b.MayLead(); err != nil {
		return nil, err
	}
	now, err := b.drainable()
	if err != nil {
		return nil, err
	}
	orders, err := b.orders(r.Context(), now, &q)
	if err != nil {
		return nil, err
	}
	out := api.Drained{}
	pool := b.Workers.Orders
	if q.DryRun {
		pool = b.Workers.Questions(r.Context())
	}
	if out.Cost, err = b.cost(r.Context(), pool, now, orders); err != nil {
		return nil, err
	}
	parts := make([]exclusions.Part, len(orders))
	names := make([]string, len(orders))
	events := make([]exclusions.Event, len(orders))
	for i, d := range orders {
		parts[i], names[i], events[i] = d.Part, d.Name, exclusions.Order{Drain: d}
		if q.DryRun {
			out.Drains = append(out.Drains, d.APIView())
		}
	}
	if q.DryRun {
		access.RequestOf(r.Context()).Told = true // no order was given
		return out, nil
	}
	err = b.Loop.Drain(r.Context(), events...)
	b.Ordered(r.Context(), "drain "+strings.Join(names, ", "), "ordered", err)
	out.Drains = b.drains(parts)
	return out, waited(err)
}

// orders converts a request to drains.
func (b *Backend) orders(ctx context.Context, now *state.State, q *api.DrainRequest) (out []exclusions.Drain, err error) {
	switch {
	case len(q.Parts) == 0:
		return nil, api.BadRequest(`nothing to drain: want {"parts": ["Spine012", "Leaf007/31"]}`)
	case !q.Until.IsZero() && !(q.Until.After(time.Now()) && q.Until.After(q.At)):
		return nil, api.BadRequest("it would end at %s, before it begins", q.Until.Format(time.RFC3339))
	case len(q.Reason) > 1000:
		return nil, api.BadRequest("the reason has %d characters: up to 1000 are kept", len(q.Reason))
	case len(now.Drains)+len(q.Parts) > exclusions.MostDrains:
		return nil, api.Refused("there would be more than %d drains", exclusions.MostDrains)
	}
	by := ""
	if c := access.CallerOf(ctx); c != nil {
		by = c.User
	}
	for _, spec := range q.Parts {
		p, name, err := exclusions.Find(now.Latest.Tree, spec)
		if err != nil {
			return nil, api.BadRequest("drain %.200s: %v", spec, err)
		}
		if slices.ContainsFunc(out, func(d exclusions.Drain) bool { return d.Part == p }) {
			return nil, api.BadRequest("%s is named twice", name)
		}
		out = append(out, exclusions.Drain{Part: p, Name: name, Reason: q.Reason, By: by, At: q.At, Until: q.Until, State: exclusions.Scheduled})
	}
	return out, nil
}

// cost plans the fabric without the parts and without those already drained.
func (b *Backend) cost(ctx context.Context, pool *worker.Pool, now *state.State, orders []exclusions.Drain) (*api.DrainCost, error) {
	v, list := now.Latest, slices.Clone(now.Drains)
	for _, d := range orders {
		d.State = exclusions.Draining
		list = append(slices.DeleteFunc(list, func(old exclusions.Drain) bool { return old.Part == d.Part }), d)
	}
	leaves := exclusions.DrainedLeaves(list)
	next := v.Without(leaves)
	out := &api.DrainCost{Hosts: []string{}, Jobs: []string{}}
	var members []ib.GUID
	for i := range v.Tree.Hosts {
		if h := &v.Tree.Hosts[i]; h.Leaf >= 0 && !h.Out && slices.Contains(leaves, v.Tree.Leaves[h.Leaf].GUID) {
			out.Hosts, members = append(out.Hosts, h.Name), append(members, h.GUID)
		}
	}
	for _, j := range now.Jobs {
		if n := len(slices.DeleteFunc(j.Guids(), func(g ib.GUID) bool { return !slices.Contains(members, g) })); n > 0 {
			out.Jobs = append(out.Jobs, fmt.Sprintf("%s loses %d of its hosts", j.Label(), n))
		}
	}
	return out, b.foresee(ctx, pool, now, out, next, now.Held, list)
}

// returned plans the fabric after parts are given back. A cable that is also held back for
// another reason counts as given back.
func (b *Backend) returned(ctx context.Context, now *state.State, parts []exclusions.Part) (*api.DrainCost, error) {
	ends := func(d exclusions.Drain) bool { return slices.Contains(parts, d.Part) }
	left := slices.DeleteFunc(slices.Clone(now.Drains), ends)
	over := slices.DeleteFunc(slices.Clone(now.Drains), func(d exclusions.Drain) bool { return !ends(d) })
	next, err := view.New(now.Latest.Fabric, now.Latest.Tree.Baseline, &b.Settings.Now().Planning)
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	next = next.Without(exclusions.DrainedLeaves(left))
	var excluded exclusions.Set
	excluded.Replace(exclusions.Drained, exclusions.DrainedCables(exclusions.Links(next.Tree), over))
	given := excluded.Lanes(next.Tree, exclusions.Any)
	held := slices.DeleteFunc(slices.Clone(now.Held), func(x controller.Lane) bool { return slices.Contains(given, x) })
	out := &api.DrainCost{Hosts: []string{}, Jobs: []string{}}
	return out, b.foresee(ctx, b.Workers.Questions(ctx), now, out, next, held, left)
}

// foresee plans a fabric without the lanes held back and without the drained parts.
func (b *Backend) foresee(ctx context.Context, pool *worker.Pool, now *state.State, out *api.DrainCost, next *view.View, held []controller.Lane, list []exclusions.Drain) error {
	if len(next.Tree.Servers) == 0 {
		return api.Refused("no server would be left")
	}
	var excluded exclusions.Set
	excluded.Replace(exclusions.Drained, exclusions.DrainedCables(exclusions.Links(next.Tree), list))
	hold := slices.Concat(held, excluded.Lanes(next.Tree, exclusions.Any))
	forecast, err := worker.WhatIf(ctx, pool, &worker.WhatIfRequest{Tree: next.Held(hold), Settings: worker.Settings(b.Planning), Epoch: now.EpochNumber()})
	if err != nil {
		return err
	}
	var plan planner.Report
	if err := json.Unmarshal(forecast.Plan, &plan); err != nil {
		return err
	}
	out.Phases, out.LowerBound, out.UnreachablePairs = plan.Phases, plan.LowerBound, plan.UnreachablePairs
	if e := now.Epoch; e != nil {
		out.PhasesNow = e.Report.Phases
	}
	return nil
}

// undrain answers POST /v1/undrain. It gives parts back or, with dry_run, describes the
// resulting plan.
func (b *Backend) undrain(r *http.Request) (any, error) {
	var q api.Undrain
	if err := server.ReadJSON(r, &q); err != nil {
		return nil, err
	}
	if err := b.MayLead(); err != nil {
		return nil, err
	}
	var parts []exclusions.Part
	var events []exclusions.Event
	for _, spec := range q.Parts {
		found, err := b.drained(spec)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			parts, events = append(parts, p), append(events, exclusions.End{Part: p})
		}
	}
	if len(parts) == 0 {
		return nil, api.BadRequest(`nothing to give back: want {"parts": ["Spine012", "Leaf007/31"]}, or "all"`)
	}
	out := api.Drained{Drains: b.drains(parts)}
	if q.DryRun {
		access.RequestOf(r.Context()).Told = true // no order was given
		now, err := b.drainable()
		if err == nil {
			out.Cost, err = b.returned(r.Context(), now, parts)
		}
		return out, err
	}
	err := b.Loop.Drain(r.Context(), events...)
	b.Ordered(r.Context(), "undrain "+strings.Join(q.Parts, ", "), "given back", err)
	return out, waited(err)
}

// drained finds the drains that match a text.
func (b *Backend) drained(spec string) ([]exclusions.Part, error) {
	var tree *topology.FatTree
	now, err := b.drainable()
	if err == nil {
		tree = now.Latest.Tree
	}
	list := now.Drains
	out := exclusions.Resolve(tree, list, spec)
	if len(out) == 0 && spec != "all" {
		return nil, api.NotFound("%.200q is not drained%s", spec, ib.DidYouMean(spec, func(yield func(string) bool) {
			for i := range list {
				if !yield(list[i].Name) {
					return
				}
			}
		}))
	}
	return out, nil
}
