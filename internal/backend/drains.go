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
	"github.com/forsd/forsd/internal/aside"
	"github.com/forsd/forsd/internal/drains"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/internal/withheld"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// maxDrainBody is the maximum size of a request about drains, in bytes.
const maxDrainBody = 1 << 20

// drains lists the drains of some parts in the API's form; nil means all parts.
func (b *Backend) drains(parts []drains.Part) []api.Drain {
	out := []api.Drain{}
	v, list := b.Board.Latest(), b.Drains()
	for i := range list {
		d := &list[i]
		if parts != nil && !slices.Contains(parts, d.Part) {
			continue
		}
		shown := d.Shown()
		if v != nil && v.Tree != nil {
			for _, c := range drains.Cables(v.Tree, list[i:i+1]) {
				shown.Cables = append(shown.Cables, api.DrainedCable(c))
			}
		}
		out = append(out, shown)
	}
	return out
}

// drainable returns the latest fabric, or an error if its parts cannot be drained.
func (b *Backend) drainable() (*view.View, error) {
	v := b.Board.Latest()
	switch {
	case v == nil:
		return nil, errNoDump
	case v.Kind == controller.OwnRoutes:
		return nil, v.NoTree("nothing can be taken out of them")
	}
	return v, nil
}

// drain answers POST /v1/drains. It reports the cost of draining parts, and drains them unless
// only the cost was requested.
func (b *Backend) drain(r *http.Request) (any, error) {
	var q api.DrainRequest
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	if err := b.Loop.MayLead(); err != nil {
		return nil, err
	}
	v, err := b.drainable()
	if err != nil {
		return nil, err
	}
	orders, err := b.orders(r.Context(), v, &q)
	if err != nil {
		return nil, err
	}
	out := api.Drained{}
	pool := b.Workers.Orders
	if q.DryRun {
		pool = b.Workers.Questions(r.Context())
	}
	if out.Cost, err = b.cost(r.Context(), pool, v, orders); err != nil {
		return nil, err
	}
	parts := make([]drains.Part, len(orders))
	names := make([]string, len(orders))
	events := make([]drains.Event, len(orders))
	for i, d := range orders {
		parts[i], names[i], events[i] = d.Part, d.Name, drains.Order{Drain: d}
		if q.DryRun {
			out.Drains = append(out.Drains, d.Shown())
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
func (b *Backend) orders(ctx context.Context, v *view.View, q *api.DrainRequest) (out []drains.Drain, err error) {
	switch {
	case len(q.Parts) == 0:
		return nil, api.BadRequest(`nothing to drain: want {"parts": ["Spine012", "Leaf007/31"]}`)
	case !q.Until.IsZero() && !q.Until.After(later(time.Now(), q.At)):
		return nil, api.BadRequest("it would end at %s, before it begins", q.Until.Format(time.RFC3339))
	case len(q.Reason) > 1000:
		return nil, api.BadRequest("the reason has %d characters: up to 1000 are kept", len(q.Reason))
	case len(b.Drains())+len(q.Parts) > drains.Most:
		return nil, api.Refused("there would be more than %d drains", drains.Most)
	}
	by := ""
	if c := access.CallerOf(ctx); c != nil {
		by = c.User
	}
	for _, spec := range q.Parts {
		p, name, err := drains.Find(v.Tree, spec)
		if err != nil {
			return nil, api.BadRequest("drain %.200s: %v", spec, err)
		}
		if slices.ContainsFunc(out, func(d drains.Drain) bool { return d.Part == p }) {
			return nil, api.BadRequest("%s is named twice", name)
		}
		out = append(out, drains.Drain{Part: p, Name: name, Reason: q.Reason, By: by, At: q.At, Until: q.Until, State: drains.Scheduled})
	}
	return out, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// cost plans the fabric without the parts and without those already drained.
func (b *Backend) cost(ctx context.Context, pool *worker.Pool, v *view.View, orders []drains.Drain) (*api.DrainCost, error) {
	list := slices.Clone(b.Drains())
	for _, d := range orders {
		d.State = drains.Draining
		list = append(slices.DeleteFunc(list, func(old drains.Drain) bool { return old.Part == d.Part }), d)
	}
	leaves := drains.Leaves(list)
	next := v.Without(leaves)
	out := &api.DrainCost{Hosts: []string{}, Jobs: []string{}}
	var members []ib.GUID
	for i := range v.Tree.Hosts {
		if h := &v.Tree.Hosts[i]; h.Leaf >= 0 && !h.Out && slices.Contains(leaves, v.Tree.Leaves[h.Leaf].GUID) {
			out.Hosts, members = append(out.Hosts, h.Name), append(members, h.GUID)
		}
	}
	for _, j := range b.Jobs.List() {
		if n := len(slices.DeleteFunc(j.Guids(), func(g ib.GUID) bool { return !slices.Contains(members, g) })); n > 0 {
			out.Jobs = append(out.Jobs, fmt.Sprintf("%s loses %d of its hosts", j.Label(), n))
		}
	}
	return out, b.foresee(ctx, pool, out, next, b.Board.HeldBack(), list)
}

// returned plans the fabric after parts are given back. A cable that is also held back for
// another reason counts as given back.
func (b *Backend) returned(ctx context.Context, v *view.View, parts []drains.Part) (*api.DrainCost, error) {
	ends := func(d drains.Drain) bool { return slices.Contains(parts, d.Part) }
	left := slices.DeleteFunc(slices.Clone(b.Drains()), ends)
	over := slices.DeleteFunc(slices.Clone(b.Drains()), func(d drains.Drain) bool { return !ends(d) })
	next, err := view.New(v.Fabric, v.Tree.Baseline, b.Settings.Now().Planning.Exclude)
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	next = next.Without(drains.Leaves(left))
	var book withheld.Book
	book.Set(withheld.Drained, drains.Cables(next.Tree, over))
	given := book.Lanes(next.Tree)
	held := slices.DeleteFunc(slices.Clone(b.Board.HeldBack()), func(x controller.Lane) bool { return slices.Contains(given, x) })
	out := &api.DrainCost{Hosts: []string{}, Jobs: []string{}}
	return out, b.foresee(ctx, b.Workers.Questions(ctx), out, next, held, left)
}

// foresee plans a fabric without the lanes held back and without the drained parts.
func (b *Backend) foresee(ctx context.Context, pool *worker.Pool, out *api.DrainCost, next *view.View, held []controller.Lane, list []drains.Drain) error {
	if len(next.Tree.Servers) == 0 {
		return api.Refused("no server would be left")
	}
	var book withheld.Book
	book.Set(withheld.Drained, drains.Cables(next.Tree, list))
	hold := slices.Concat(held, book.Lanes(next.Tree))
	forecast, err := aside.Forecast(ctx, pool, &aside.Question{Tree: next.Held(hold), Settings: aside.Settings(b.Planning), Epoch: b.Board.EpochNumber()})
	if err != nil {
		return err
	}
	var plan planner.Report
	if err := json.Unmarshal(forecast.Plan, &plan); err != nil {
		return err
	}
	out.Phases, out.LowerBound, out.UnreachablePairs = plan.Phases, plan.LowerBound, plan.UnreachablePairs
	if e := b.Board.Current(); e != nil {
		out.PhasesNow = e.Report.Phases
	}
	return nil
}

// undrain answers POST /v1/undrain. It gives parts back or, with dry_run, describes the
// resulting plan.
func (b *Backend) undrain(r *http.Request) (any, error) {
	var q api.Undrain
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	if err := b.Loop.MayLead(); err != nil {
		return nil, err
	}
	var parts []drains.Part
	var events []drains.Event
	for _, spec := range q.Parts {
		found, err := b.drained(spec)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			parts, events = append(parts, p), append(events, drains.End{Part: p})
		}
	}
	if len(parts) == 0 {
		return nil, api.BadRequest(`nothing to give back: want {"parts": ["Spine012", "Leaf007/31"]}, or "all"`)
	}
	out := api.Drained{Drains: b.drains(parts)}
	if q.DryRun {
		access.RequestOf(r.Context()).Told = true // no order was given
		v, err := b.drainable()
		if err == nil {
			out.Cost, err = b.returned(r.Context(), v, parts)
		}
		return out, err
	}
	err := b.Loop.Drain(r.Context(), events...)
	b.Ordered(r.Context(), "undrain "+strings.Join(q.Parts, ", "), "given back", err)
	return out, waited(err)
}

// drained finds the drains that match a text.
func (b *Backend) drained(spec string) ([]drains.Part, error) {
	var tree *topology.FatTree
	if v, err := b.drainable(); err == nil {
		tree = v.Tree
	}
	list := b.Drains()
	out := drains.Meant(tree, list, spec)
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

// decode parses the body of a request.
func decode(r *http.Request, v any) error {
	body, err := server.ReadBody(r, maxDrainBody)
	if err != nil {
		return err
	}
	return server.Decode(body, v)
}
