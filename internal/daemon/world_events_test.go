package daemon

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/internal/exclusions"
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
		w.changed = time.Now()
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
