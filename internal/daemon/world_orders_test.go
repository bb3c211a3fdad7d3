package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/exclusions"
)

// operator makes a request.
func (w *world) operator(what string, ask func(ctx context.Context, d *Daemon) error) {
	if lead := w.leader(); lead != nil {
		w.side = lead
	}
	w.ask(what, ask)
}

// ask has an operator ask the forsd here.
func (w *world) ask(what string, ask func(ctx context.Context, d *Daemon) error) {
	p := w.forsd
	if p == nil || p.d == nil {
		return
	}
	o := &order{what: what, asked: p}
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

// accept makes the fabric the baseline. The history goes on with less only if all is there, as
// forsd knows.
func (w *world) accept(*rand.Rand) {
	lead := w.leader()
	if lead == nil || lead.forsd == nil || lead.forsd.d == nil || !w.healthy() {
		return
	}
	d := lead.forsd.d
	if v := d.state.Now().Latest; d.core.State() != controller.Idle || v == nil || len(v.Fabric.Nodes) < len(w.plant.nodes) || len(v.Down) > 0 {
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
func (w *world) orderDrain(*rand.Rand) {
	p := w.plant
	all := w.drainable()
	if all == nil {
		return
	}
	names := w.about(func(r *rand.Rand) []string {
		name := ""
		if r.IntN(3) > 0 {
			if c, ok := pick(r, w.trunks(func(*cable) bool { return true })); ok {
				name = w.name(c)
			}
		} else if i, ok := pick(r, all); ok {
			name = p.whole.Nodes[i].Name
		}
		if part := w.partNamed(name); slices.Contains(w.ordered, part) || len(w.ordered) > 3 {
			return nil
		} else if w.ordered = append(w.ordered, part); !w.enough() {
			name = ""
		}
		w.ordered = w.ordered[:len(w.ordered)-1]
		return strings.Fields(name)
	})
	if len(names) == 0 || w.forsd == nil {
		return
	}
	name, part := names[0], w.partNamed(names[0])
	w.ordered = append(w.ordered, part)
	w.operator("drain "+name, func(ctx context.Context, d *Daemon) error {
		return d.inbox.Drain(ctx, exclusions.Order{Drain: exclusions.Drain{Part: part, Name: name}})
	})
	o := w.orders[len(w.orders)-1]
	o.part = &part
	o.undone = func() { w.ordered = slices.DeleteFunc(w.ordered, func(x exclusions.Part) bool { return x == part }) }
}

// partNamed returns the cable, the spine or the leaf of a name as a part to drain.
func (w *world) partNamed(name string) exclusions.Part {
	if c := w.cableNamed(name); c >= 0 {
		return w.cablePart(c)
	}
	i := w.nodeNamed(name)
	if w.isLeaf(i) {
		return exclusions.Part{Kind: exclusions.Leaf, GUID: w.plant.guid(i)}
	}
	return exclusions.Part{Kind: exclusions.Spine, GUID: w.plant.guid(i)}
}

func (w *world) undrain(*rand.Rand) {
	names := w.about(func(r *rand.Rand) []string {
		part, ok := pick(r, w.ordered)
		if !ok {
			return nil
		}
		return []string{w.partName(part)}
	})
	for _, name := range names {
		if w.forsd != nil {
			w.giveBack(w.partNamed(name))
		}
	}
}

// partName names a part that is drained.
func (w *world) partName(part exclusions.Part) string {
	i := w.plant.whole.Find(part.GUID)
	if part.Kind != exclusions.Cable {
		return w.plant.whole.Nodes[i].Name
	}
	return w.name(w.plant.cableAt(int(i), int(part.Port)))
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

func (w *world) makeJob(r *rand.Rand) { w.make(r, 600) }

// makeBriefJob makes a job whose lease ends while other things happen.
func (w *world) makeBriefJob(r *rand.Rand) { w.make(r, 20) }

func (w *world) make(r *rand.Rand, most int) {
	var hosts []string
	for _, h := range w.hosts() {
		if r.IntN(3) == 0 {
			hosts = append(hosts, w.plant.whole.Nodes[h].Name)
		}
	}
	if len(hosts) < 2 {
		return
	}
	seconds := int64(5 + r.IntN(most))
	asked := w.boot()
	var made *api.Job
	w.operator(fmt.Sprintf("job of %d hosts for %d s", len(hosts), seconds), func(ctx context.Context, d *Daemon) (err error) {
		made, err = backend.Jobs{Parts: &d.backend.Parts}.CreateJob(ctx, api.JobRequest{Hosts: hosts, LeaseSeconds: seconds, SkipUnknown: true})
		return err
	})
	if w.forsd == nil {
		return
	}
	w.orders[len(w.orders)-1].then = func() {
		length := time.Duration(seconds) * time.Second
		w.leases = append(w.leases, lease{made.ID, asked + length, w.boot() + length})
	}
}

func (w *world) endJob(*rand.Rand) {
	w.operator("end of a job", func(ctx context.Context, d *Daemon) error {
		list := d.state.Now().Jobs
		if len(list) == 0 {
			return nil
		}
		id := list[0].ID
		w.leases = slices.DeleteFunc(w.leases, func(l lease) bool { return l.job == id })
		_, err := backend.Jobs{Parts: &d.backend.Parts}.RemoveJob(ctx, fmt.Sprint(id))
		return err
	})
}

// lease is how long a job may live: it ends between two times since the machine was booted.
type lease struct {
	job         uint64
	first, last time.Duration
}

// boot is the time since the machine was booted.
func (w *world) boot() time.Duration { return time.Since(epoch0) + w.booted }

// judgeLeases checks that jobs live as long as their leases, and no longer.
func (w *world) judgeLeases() error {
	const slack = 2 * time.Second
	for _, l := range w.leases {
		lives := false
		for _, j := range w.forsd.d.state.Now().Jobs {
			lives = lives || j.ID == l.job
		}
		if now := w.boot(); lives && now > l.last+slack || !lives && now < l.first-slack {
			return fmt.Errorf("job %d lives: %v, %v after its lease has ended", l.job, lives, now-l.last)
		}
	}
	return nil
}

// variants of the configuration, and one that cannot be read.
const variants, unreadable = 4, 4

// reload has forsd read its configuration, which has changed.
func (w *world) reload(r *rand.Rand) {
	next := r.IntN(variants + 1)
	if w.set.pair && next == 2 {
		next = 0 // the other forsd would have other hosts
	}
	w.configure(next)
}

// configure has the forsd that leads read a variant of its configuration.
func (w *world) configure(variant int) {
	if lead := w.leader(); lead != nil {
		w.side = lead
	}
	w.reread(variant)
}

// reread does the same here.
func (w *world) reread(variant int) {
	if w.forsd == nil || w.forsd.d == nil || slices.ContainsFunc(w.orders, func(o *order) bool { return o.what == "reload" && o.asked == w.forsd && !o.done }) {
		return // a second reload waits for a mutex, which synctest.Wait does not count as rest
	}
	here, was := w.side, w.retold
	w.retold = variant
	w.note("the configuration is variant %d", variant)
	w.ask("reload", func(ctx context.Context, d *Daemon) error { _, err := d.backend.Reload(ctx, false); return err })
	w.orders[len(w.orders)-1].undone = func() { here.retold = was }
	if variant == unreadable {
		here.retold = was // it has been read
	}
}

// read reads the configuration of a side.
func (w *world) read(s *side, p *process) (*config.Config, error) {
	if s.retold == unreadable {
		return nil, &config.Error{Name: "forsd.yaml", Problems: []config.Problem{{}}}
	}
	return (&world{set: w.set, plant: w.plant, side: s}).configured(p.link, s.retold), nil
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
