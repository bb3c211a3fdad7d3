package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing/synctest"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/exclusions"
)

// operator makes a request.
func (w *world) operator(what string, ask func(ctx context.Context, d *Daemon) error) {
	p := w.forsd
	if p == nil {
		return
	}
	o := &order{what: what}
	w.orders = append(w.orders, o)
	w.note("order %d: %s", len(w.orders)-1, what)
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	go func() {
		defer cancel()
		o.err = ask(ctx, p.d)
		o.done = true
	}()
	synctest.Wait() // until the loop is to answer: orders come in their order
}

func (w *world) reroute(*rand.Rand) {
	w.operator("reroute", func(ctx context.Context, d *Daemon) error { _, err := d.backend.Reroute(ctx); return err })
}

func (w *world) rollback(r *rand.Rand) {
	back := r.Uint64N(5)
	w.operator("rollback", func(ctx context.Context, d *Daemon) error {
		_, err := d.backend.Rollback(ctx, max(d.state.Now().EpochNumber(), 1+back)-back)
		return err
	})
}

// accept makes the fabric the baseline. The history goes on with less only if all is there.
func (w *world) accept(*rand.Rand) {
	if !w.healthy() {
		return
	}
	w.operator("accept", func(ctx context.Context, d *Daemon) error { _, err := d.backend.Accept(ctx); return err })
}

// cablePart is a cable as a part to drain.
func (w *world) cablePart(c int) exclusions.Part {
	x := w.plant.cables[c]
	lower := x.a
	if !w.isLeaf(int(lower.Node)) {
		lower = x.b
	}
	return exclusions.Part{Kind: exclusions.Cable, GUID: w.plant.guid(int(lower.Node)), Port: lower.Port}
}

// drainedParts lists the parts that are drained, by forsd's word.
func (w *world) drainedParts() map[exclusions.Part]bool {
	out := map[exclusions.Part]bool{}
	for _, p := range w.ordered {
		out[p] = true
	}
	return out
}

// drainable lists the switches that are drained: on two levels, all.
func (w *world) drainable() (all []int) {
	for c := range w.plant.cables {
		if x := &w.plant.cables[c]; w.plant.trunk(c) && !w.isLeaf(int(x.a.Node)) && !w.isLeaf(int(x.b.Node)) {
			return nil
		}
	}
	for i := range w.plant.nodes {
		if w.plant.nodes[i].isSwitch {
			all = append(all, i)
		}
	}
	return all
}

// orderDrain drains a cable, a spine or a leaf.
func (w *world) orderDrain(r *rand.Rand) {
	p := w.plant
	all := w.drainable()
	if all == nil {
		return
	}
	var part exclusions.Part
	name := ""
	if r.IntN(3) > 0 {
		c, ok := pick(r, w.trunks(func(*cable) bool { return true }))
		if !ok {
			return
		}
		part, name = w.cablePart(c), w.name(c)
	} else {
		i, _ := pick(r, all)
		part, name = exclusions.Part{Kind: exclusions.Spine, GUID: p.guid(i)}, p.whole.Nodes[i].Name
		if w.isLeaf(i) {
			part.Kind = exclusions.Leaf
		}
	}
	if slices.Contains(w.ordered, part) || len(w.ordered) > 3 || w.forsd == nil {
		return
	}
	if w.ordered = append(w.ordered, part); !w.enough() {
		w.ordered = w.ordered[:len(w.ordered)-1]
		return
	}
	w.operator("drain "+name, func(ctx context.Context, d *Daemon) error {
		return d.inbox.Drain(ctx, exclusions.Order{Drain: exclusions.Drain{Part: part, Name: name}})
	})
	o := w.orders[len(w.orders)-1]
	o.part = &part
	o.undone = func() { w.ordered = slices.DeleteFunc(w.ordered, func(x exclusions.Part) bool { return x == part }) }
}

func (w *world) undrain(r *rand.Rand) {
	part, ok := pick(r, w.ordered)
	if !ok || w.forsd == nil {
		return
	}
	w.giveBack(part)
}

func (w *world) giveBack(part exclusions.Part) {
	w.operator(fmt.Sprintf("undrain %v", part), func(ctx context.Context, d *Daemon) error {
		return d.inbox.Drain(ctx, exclusions.End{Part: part})
	})
	w.orders[len(w.orders)-1].part = &part
	w.orders[len(w.orders)-1].then = func() {
		w.ordered = slices.DeleteFunc(w.ordered, func(x exclusions.Part) bool { return x == part })
	}
}

func (w *world) makeJob(r *rand.Rand) {
	var hosts []string
	for _, h := range w.hosts() {
		if r.IntN(3) == 0 {
			hosts = append(hosts, w.plant.whole.Nodes[h].Name)
		}
	}
	if len(hosts) < 2 {
		return
	}
	lease := int64(5 + r.IntN(600))
	w.operator(fmt.Sprintf("job of %d hosts for %d s", len(hosts), lease), func(ctx context.Context, d *Daemon) error {
		_, err := backend.Jobs{Parts: &d.backend.Parts}.CreateJob(ctx, api.JobRequest{Hosts: hosts, LeaseSeconds: lease, SkipUnknown: true})
		return err
	})
}

func (w *world) endJob(*rand.Rand) {
	w.operator("end of a job", func(ctx context.Context, d *Daemon) error {
		list := d.state.Now().Jobs
		if len(list) == 0 {
			return nil
		}
		_, err := backend.Jobs{Parts: &d.backend.Parts}.RemoveJob(ctx, fmt.Sprint(list[0].ID))
		return err
	})
}

// healthy reports whether nothing is missing.
func (w *world) healthy() bool {
	for c := range w.plant.cables {
		if !w.plant.live(c) || w.plant.cables[c].slow {
			return false
		}
	}
	return true
}
