package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/topology"
)

// happening is an event of a history. Its number draws what it depends on from the state of
// the world, so that a history without some of its events is one, too.
type happening struct {
	kind   string
	number uint64
	after  time.Duration // from the event before
}

func (h happening) String() string { return fmt.Sprintf("%s:%d:%v", h.kind, h.number, h.after) }

// parseHistory reads events as String prints them.
func parseHistory(text string) (out []happening, err error) {
	for word := range strings.FieldsSeq(strings.Trim(text, "[]")) {
		parts := strings.Split(word, ":")
		if len(parts) != 3 {
			return nil, fmt.Errorf("event %q: want KIND:NUMBER:TIME", word)
		}
		h := happening{kind: parts[0]}
		if h.number, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
			return nil, err
		}
		if h.after, err = time.ParseDuration(parts[2]); err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// kinds of events, with weights.
var happenings = []struct {
	kind   string
	weight int
	do     func(w *world, r *rand.Rand)
}{
	{"pull", 24, (*world).pull},
	{"plug", 20, (*world).plug},
	{"flap", 6, (*world).flap},
	{"slow", 3, (*world).slow},
	{"switch", 8, (*world).turnSwitch},
	{"host", 8, (*world).turnHost},
	{"opensm", 4, (*world).restartManager},
	{"kill", 6, (*world).killForsd},
	{"sync", 4, (*world).killAtSync},
	{"stop", 2, (*world).stopForsd},
	{"hup", 2, func(w *world, _ *rand.Rand) { w.manager.hup++ }},
	{"reroute", 3, (*world).reroute},
	{"rollback", 3, (*world).rollback},
	{"accept", 1, (*world).accept},
	{"drain", 4, (*world).orderDrain},
	{"undrain", 4, (*world).undrain},
	{"lossy", 2, func(w *world, r *rand.Rand) { w.lossy = r.IntN(30) }},
	{"unsynced", 2, (*world).unsynced},
	{"disk", 5, (*world).spoilDisk},
	{"job", 1, (*world).makeJob},
	{"unjob", 1, (*world).endJob},
	{"rest", 12, nil},
}

// draw draws a history.
func draw(seed uint64, faults int) []happening {
	r := rand.New(rand.NewPCG(seed, 7))
	total := 0
	for _, k := range happenings {
		total += k.weight
	}
	var out []happening
	for len(out) < faults {
		n := r.IntN(total)
		for _, k := range happenings {
			if n -= k.weight; n >= 0 {
				continue
			}
			h := happening{kind: k.kind, number: r.Uint64()}
			switch r.IntN(4) {
			case 0:
			case 1:
				h.after = time.Duration(r.IntN(20_000)) * time.Microsecond
			case 2:
				h.after = time.Duration(r.IntN(300)) * time.Millisecond
			case 3:
				h.after = time.Duration(r.IntN(4000)) * time.Millisecond
			}
			out = append(out, h)
			break
		}
	}
	return out
}

// happen plays an event.
func (w *world) happen(h happening) {
	w.pass(time.Now().Add(h.after), nil)
	if w.failure != "" {
		return
	}
	w.rng = rand.New(rand.NewPCG(w.set.seed, h.number))
	w.faults++
	if h.kind == "rest" {
		w.rest()
		return
	}
	for _, k := range happenings {
		if k.kind == h.kind {
			k.do(w, rand.New(rand.NewPCG(h.number, 1)))
		}
	}
}

// pick chooses an element; ok is false if there is none.
func pick[T any](r *rand.Rand, all []T) (x T, ok bool) {
	if len(all) == 0 {
		return x, false
	}
	return all[r.IntN(len(all))], true
}

// name names a cable.
func (w *world) name(c int) string {
	x := &w.plant.cables[c]
	return fmt.Sprintf("%s/%d - %s/%d", w.plant.whole.Nodes[x.a.Node].Name, x.a.Port, w.plant.whole.Nodes[x.b.Node].Name, x.b.Port)
}

// trunks lists the cables between switches that are in a state.
func (w *world) trunks(is func(c *cable) bool) (out []int) {
	for c := range w.plant.cables {
		if w.plant.trunk(c) && is(&w.plant.cables[c]) {
			out = append(out, c)
		}
	}
	return out
}

// change changes the fabric, and has the switches at changed links send traps.
func (w *world) change(text string, do func()) {
	w.note("%s", text)
	p := w.plant
	before, slow := make([]bool, len(p.cables)), make([]bool, len(p.cables))
	for c := range p.cables {
		before[c], slow[c] = p.live(c), p.cables[c].slow
	}
	do()
	changed := map[int32]bool{}
	for c := range p.cables {
		x := &p.cables[c]
		if p.live(c) == before[c] && x.slow == slow[c] {
			continue
		}
		x.trains++
		if x.active = false; p.nodes[x.a.Node].isSwitch {
			changed[x.a.Node] = true
		}
		if p.nodes[x.b.Node].isSwitch {
			changed[x.b.Node] = true
		}
	}
	w.mourn()
	for i := range p.nodes {
		if changed[int32(i)] && !p.nodes[i].off && w.rng.IntN(10) > 0 {
			node := i
			w.after(w.between(0, 2), func() { w.manager.trap(node) })
		}
	}
}

// enough reports whether enough of the fabric is left: each leaf has half of its lanes, and any
// two leaves share one that plans may use; on three levels, few parts are away.
func (w *world) enough() bool {
	p := w.plant
	if len(w.drainable()) == 0 {
		dead, off := 0, 0
		for c := range p.cables {
			if x := &p.cables[c]; p.trunk(c) && (x.pulled || x.slow) {
				dead++
			}
		}
		for i := range p.nodes {
			if p.nodes[i].isSwitch && p.nodes[i].off {
				off++
			}
		}
		return dead+off <= max(1, len(p.nodes[0].table)/200)
	}
	ups := map[int]map[int]int{} // [leaf][spine] usable cables
	n := map[int]int{}
	out := w.drainedParts()
	for c := range p.cables {
		x := &p.cables[c]
		if !p.trunk(c) {
			continue
		}
		a, b := int(x.a.Node), int(x.b.Node)
		if !w.isLeaf(a) {
			a, b = b, a
		}
		if n[a]++; ups[a] == nil {
			ups[a] = map[int]int{}
		}
		if p.live(c) && !x.slow && !out[exclusions.Part{Kind: exclusions.Spine, GUID: p.guid(b)}] && !out[w.cablePart(c)] {
			ups[a][b]++
		}
	}
	for a, mine := range ups {
		if p.nodes[a].off || out[exclusions.Part{Kind: exclusions.Leaf, GUID: p.guid(a)}] {
			continue
		}
		left := 0
		for _, k := range mine {
			left += k
		}
		if 2*left < n[a] {
			return false
		}
		for b, theirs := range ups {
			if p.nodes[b].off || a == b || out[exclusions.Part{Kind: exclusions.Leaf, GUID: p.guid(b)}] {
				continue
			}
			shared := false
			for s := range mine {
				shared = shared || theirs[s] > 0
			}
			if !shared {
				return false
			}
		}
	}
	return true
}

// try makes a change unless too little of the fabric would be left.
func (w *world) try(text string, do, undo func()) {
	do()
	good := w.enough()
	undo()
	if good {
		w.change(text, do)
	}
}

func (w *world) pull(r *rand.Rand) {
	for range 1 + r.IntN(3)*r.IntN(2) {
		if c, ok := pick(r, w.trunks(func(c *cable) bool { return !c.pulled })); ok {
			x := &w.plant.cables[c]
			w.try("pull "+w.name(c), func() { x.pulled = true }, func() { x.pulled = false })
		}
	}
}

func (w *world) plug(r *rand.Rand) {
	for range 1 + r.IntN(4)*r.IntN(2) {
		if c, ok := pick(r, w.trunks(func(c *cable) bool { return c.pulled })); ok {
			w.change("plug "+w.name(c), func() { w.plant.cables[c].pulled = false })
		}
	}
}

// later changes the fabric after some time.
func (w *world) later(d time.Duration, do func()) {
	w.changes++
	w.after(d, func() { w.changes--; do() })
}

// flap pulls and plugs a cable some times.
func (w *world) flap(r *rand.Rand) {
	c, ok := pick(r, w.trunks(func(c *cable) bool { return !c.pulled }))
	if !ok {
		return
	}
	x := &w.plant.cables[c]
	x.pulled = true
	good := w.enough()
	if x.pulled = false; !good {
		return
	}
	at := time.Duration(0)
	for range 1 + r.IntN(4) {
		w.later(at, func() {
			if !x.pulled {
				w.change("flap "+w.name(c), func() { x.pulled = true })
			}
		})
		at += time.Duration(1+r.IntN(150)) * time.Millisecond
		w.later(at, func() { w.change("and back "+w.name(c), func() { x.pulled = false }) })
		at += time.Duration(r.IntN(400)) * time.Millisecond
	}
}

// slow has a cable run at a lower width, or at its own again.
func (w *world) slow(r *rand.Rand) {
	c, ok := pick(r, w.trunks(func(*cable) bool { return true }))
	if !ok || w.plant.cables[c].pulled {
		return
	}
	x := &w.plant.cables[c]
	again := func() { // it trains anew
		w.change("train "+w.name(c), func() { x.pulled = true })
		w.later(w.between(5, 60), func() {
			w.change(fmt.Sprintf("trained, slow: %v", x.slow), func() { x.pulled = false })
		})
	}
	if x.slow {
		x.slow = false
		again()
		return
	}
	x.slow = true
	if !w.enough() {
		x.slow = false
		return
	}
	again()
}

// turnSwitch turns a switch off, or the one that is off on.
func (w *world) turnSwitch(r *rand.Rand) {
	p := w.plant
	own, _ := p.uplink(w.manager.host)
	var on []int
	for i := range p.nodes {
		if n := &p.nodes[i]; n.isSwitch && n.off {
			w.change("on "+p.whole.Nodes[i].Name, func() { n.off, n.blank, n.table = false, true, p.empty() })
			return
		} else if n.isSwitch && i != own {
			on = append(on, i)
		}
	}
	if i, ok := pick(r, on); ok {
		n := &p.nodes[i]
		w.try("off "+p.whole.Nodes[i].Name, func() { n.off = true }, func() { n.off = false })
	}
}

// turnHost turns a host off or on.
func (w *world) turnHost(r *rand.Rand) {
	p := w.plant
	var off, on []int
	for _, h := range w.hosts() {
		if p.nodes[h].off {
			off = append(off, h)
		} else if h != w.manager.host {
			on = append(on, h)
		}
	}
	if h, ok := pick(r, off); ok && (r.IntN(2) == 0 || len(off) > 3) {
		w.change("on "+p.whole.Nodes[h].Name, func() { p.nodes[h].off = false })
	} else if h, ok := pick(r, on); ok {
		w.change("off "+p.whole.Nodes[h].Name, func() { p.nodes[h].off = true })
	}
}

func (w *world) restartManager(r *rand.Rand) {
	if w.manager.pid == 0 {
		return
	}
	w.manager.stop()
	w.after(time.Duration(r.IntN(3000))*time.Millisecond, w.manager.start)
}

// again starts forsd after some time, if it does not run.
func (w *world) again(r *rand.Rand) {
	after := time.Duration(r.IntN(50)) * time.Millisecond
	if r.IntN(3) == 0 {
		after = time.Duration(r.IntN(20_000)) * time.Millisecond
	}
	w.after(after, func() {
		if w.forsd == nil {
			w.start()
		}
	})
}

func (w *world) killForsd(r *rand.Rand) {
	if w.forsd != nil {
		w.kill()
		w.again(r)
	}
}

// killAtSync has forsd be killed when it brings something to disk.
func (w *world) killAtSync(r *rand.Rand) {
	if w.forsd != nil {
		w.crashAt = w.syncs + 1 + r.IntN(8)
		w.note("forsd will be killed at a sync")
	}
}

// stopForsd ends forsd as SIGTERM does.
func (w *world) stopForsd(r *rand.Rand) {
	p := w.forsd
	if p == nil || p.busy > 0 {
		return
	}
	w.note("forsd is stopped")
	p.d.store.RestoreNow()
	w.kill()
	w.again(r)
}

// unsynced has a sync fail.
func (w *world) unsynced(r *rand.Rand) {
	if w.failAt == nil {
		w.failAt = map[int]bool{}
	}
	for n := range 1 + r.IntN(3) {
		w.failAt[w.syncs+1+n+r.IntN(4)] = true
	}
	w.note("syncs will fail")
}

// spoilDisk has the disk of the state directory fail, or mends it.
func (w *world) spoilDisk(r *rand.Rand) {
	if w.disk.fault != "" {
		w.mendDisk()
		return
	}
	if !w.disk.mounted {
		return // whatever else fails takes the baseline away
	}
	fault, _ := pick(r, []string{"full", "read-only"})
	w.disk.fail(fault)
	w.note("the disk is %s", w.disk.fault)
}

func (w *world) mendDisk() {
	if w.disk.fault != "" {
		w.note("the disk is mended: %s", w.disk.fault)
		w.disk.mend()
	}
}

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
		_, err := d.backend.Rollback(ctx, max(d.state.EpochNumber(), 1+back)-back)
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
		return d.Drain(ctx, exclusions.Order{Drain: exclusions.Drain{Part: part, Name: name}})
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
		return d.Drain(ctx, exclusions.End{Part: part})
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
		_, err := backend.Jobs{Backend: d.backend}.CreateJob(ctx, api.JobRequest{Hosts: hosts, LeaseSeconds: lease, SkipUnknown: true})
		return err
	})
}

func (w *world) endJob(*rand.Rand) {
	w.operator("end of a job", func(ctx context.Context, d *Daemon) error {
		list := d.jobs.List()
		if len(list) == 0 {
			return nil
		}
		_, err := backend.Jobs{Backend: d.backend}.RemoveJob(ctx, fmt.Sprint(list[0].ID))
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

// fabricWarnings tell of the fabric as it is.
var fabricWarnings = []string{topology.CableDown, topology.CableDegraded, topology.SpineDown, topology.LeafDown, topology.HostAbsent, topology.LeafBinds, topology.FewSpineCables,
	exclusions.DrainedWarning, "plan-over-bound", "base-plan-over-bound", "base-lids-crowded", "job-hosts-missing", "job-degraded", "job-shares-lanes", "unreachable-pairs", "no-base-plan", "engine-fallback", "state-damaged"}

// resting reports whether forsd is at rest, or why not.
func (w *world) resting() string {
	p := w.forsd
	switch {
	case p == nil:
		return "forsd does not run"
	case w.changes > 0:
		return "cables still bounce"
	case w.manager.pid == 0 || w.manager.sweeping || w.manager.again:
		return "OpenSM is not at rest"
	case w.manager.swept == nil || !equalLinks(w.manager.swept, w.links(w.manager.host)):
		return "OpenSM has not seen the fabric"
	case !w.manager.shown:
		return "forsd has not found OpenSM's dump"
	case p.d.core.State() != controller.Idle || p.busy > 0 || len(p.d.waiting) > 0:
		return "forsd works: " + p.d.core.State().String()
	}
	for _, o := range w.orders {
		if !o.done {
			return "an order is not carried out: " + o.what
		}
	}
	for _, warning := range p.d.health.List(time.Now()) {
		if !slices.Contains(fabricWarnings, warning.Code) {
			return fmt.Sprintf("%s: %s", warning.Code, warning.Text)
		}
	}
	plan := p.d.state.Plans.Current()
	if plan == nil {
		return "there is no plan"
	}
	if err := w.reaches(); err != nil {
		return err.Error()
	}
	if err := w.complete(plan, w.drainedLeaves()); err != nil {
		return err.Error()
	}
	if err := w.avoids(); err != nil {
		return err.Error()
	}
	return ""
}

// drainedLeaves lists the leaves that are drained.
func (w *world) drainedLeaves() map[int]bool {
	out := map[int]bool{}
	for _, part := range w.ordered {
		if part.Kind == exclusions.Leaf {
			out[int(w.plant.whole.Find(part.GUID))] = true
		}
	}
	return out
}

// rest waits until forsd is at rest.
func (w *world) rest() {
	w.lossy, w.failAt, w.crashAt = 0, nil, 0
	w.mendDisk()
	if p := w.forsd; p != nil && p.reader != nil {
		w.wire.loses = 0
	}
	began, checked, why := time.Now(), time.Time{}, ""
	w.pass(began.Add(worldPatience), func() bool {
		now := time.Now()
		if now.Sub(checked) < 250*time.Millisecond {
			return false
		}
		checked = now
		why = w.resting()
		return why == ""
	})
	if w.failure == "" && why != "" {
		w.fail("not at rest after %v: %s", worldPatience, why)
		return
	}
	if w.failure != "" {
		return
	}
	w.spoilt, w.forsd.blind = false, false
	clear(w.judge.died)
	w.note("at rest after %v, plan %d", time.Since(began), w.forsd.d.state.EpochNumber())
	w.judgePlan("all is at rest", w.forsd.d.state.Plans.Current())
	for _, way := range w.judge.ways {
		for _, r := range way {
			if c := w.plant.cableAt(int(r.Node), int(r.Port)); w.plant.cables[c].slow {
				w.fail("at rest the plan uses %s, which is slow", w.name(c))
				return
			}
		}
	}
}

// heal repairs the fabric and ends all drains and jobs.
func (w *world) heal() {
	p := w.plant
	w.change("all is repaired", func() {
		for i := range p.nodes {
			if p.nodes[i].off {
				if p.nodes[i].off = false; p.nodes[i].isSwitch {
					p.nodes[i].blank, p.nodes[i].table = true, p.empty()
				}
			}
		}
		for c := range p.cables {
			p.cables[c].pulled, p.cables[c].slow = false, false
		}
	})
	if w.forsd == nil {
		w.start()
	}
	if w.manager.pid == 0 {
		w.manager.start()
	}
	w.rest()
	if w.failure != "" {
		return
	}
	for _, part := range slices.Clone(w.ordered) {
		w.giveBack(part)
	}
	for range w.forsd.d.jobs.List() {
		w.endJob(nil)
		w.pass(time.Now().Add(100*time.Millisecond), nil)
	}
	w.rest()
	if w.failure != "" {
		return
	}
	var left []string
	for _, x := range w.forsd.d.health.List(time.Now()) {
		if !strings.HasPrefix(x.Code, "job-") && x.Code != "state-damaged" {
			left = append(left, x.Code+": "+x.Text)
		}
	}
	if left != nil {
		w.fail("all is well, and there are warnings: %s", strings.Join(left, "; "))
	}
	if n, want := w.forsd.d.state.Plans.Current().Table.Phases(), w.phases; n > want {
		w.fail("all is well, and the plan has %d phases instead of %d", n, want)
	}
}

// avoids checks that nothing leads over what is safe to pull.
func (w *world) avoids() error {
	p := w.plant
	safe := map[int]bool{}
	for _, d := range *w.forsd.d.drained.Load() {
		if !slices.Contains(w.ordered, d.Part) {
			return fmt.Errorf("%s is drained, and nobody asked for it", d.Name)
		}
		jobs := func(use string) bool {
			return strings.HasPrefix(use, "job ") && strings.HasSuffix(use, " of its hosts")
		}
		if d.State != exclusions.Safe && (d.Kind != exclusions.Leaf || len(d.Uses) == 0 || !slices.ContainsFunc(d.Uses, jobs)) { // programs of jobs may send until these end
			return fmt.Errorf("%s is %s: %v", d.Name, d.State, d.Uses)
		}
		for c := range p.cables {
			if x := &p.cables[c]; p.trunk(c) && (w.cablePart(c) == d.Part || d.Kind == exclusions.Spine && (p.guid(int(x.a.Node)) == d.GUID || p.guid(int(x.b.Node)) == d.GUID)) {
				safe[c] = true
			}
		}
	}
	if got := len(*w.forsd.d.drained.Load()); got != len(w.ordered) {
		return fmt.Errorf("%d parts are drained, and %d should be", got, len(w.ordered))
	}
	if len(safe) == 0 {
		return nil
	}
	without := w.drainedLeaves() // their hosts have no other ways
	for i := range p.nodes {
		if !p.nodes[i].isSwitch || p.nodes[i].off || !w.isLeaf(i) || without[i] {
			continue
		}
		for lid, owner := range p.owner {
			if owner < 0 || p.nodes[owner].isSwitch {
				continue
			}
			if leaf, _ := p.uplink(owner); without[leaf] {
				continue
			}
			ports, _ := p.route(i, lid, false)
			for _, at := range ports {
				if safe[p.cableAt(int(at.Node), int(at.Port))] {
					return fmt.Errorf("%s is safe to pull, and LID %d takes it from %s", w.name(p.cableAt(int(at.Node), int(at.Port))), lid, p.whole.Nodes[i].Name)
				}
			}
		}
	}
	return nil
}
