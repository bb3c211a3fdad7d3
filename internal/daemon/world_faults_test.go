package daemon

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/topology"
)

// name names a cable by its ends.
func (w *world) name(c int) string {
	x := &w.plant.cables[c]
	return fmt.Sprintf("%s/%d-%s/%d", w.plant.whole.Nodes[x.a.Node].Name, x.a.Port, w.plant.whole.Nodes[x.b.Node].Name, x.b.Port)
}

// cableNamed returns the cable of a name, −1 without one.
func (w *world) cableNamed(name string) int {
	for c := range w.plant.cables {
		if w.name(c) == name {
			return c
		}
	}
	return -1
}

// nodeNamed returns the node of a name, −1 without one.
func (w *world) nodeNamed(name string) int {
	return slices.IndexFunc(w.plant.whole.Nodes, func(n topology.Node) bool { return n.Name == name })
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
		w.changed, w.judge.forgone[c] = time.Now(), w.judge.forgone[c] && !p.live(c)
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
			w.after(w.between(0, 2), func() { w.each(func() { w.manager.trap(node) }) })
		}
	}
}

// enough reports whether enough of the fabric is left, without cables that are held back, also when
// the leaves that are off or drained come back: each leaf has half of its lanes, and any two leaves share one that plans
// may use; on three levels, few parts are away. Two leaves at least are in the plan.
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
	out, held := w.drainedParts(), w.bouncing()
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
		if !x.pulled && x.bounces == 0 && !slices.Contains(held, c) && !x.slow && !p.nodes[b].off && !out[exclusions.Part{Kind: exclusions.Spine, GUID: p.guid(b)}] && !out[w.cablePart(c)] {
			ups[a][b]++
		}
	}
	there := 0 // leaves with hosts for a plan
	for a := range ups {
		if !p.nodes[a].off && !out[exclusions.Part{Kind: exclusions.Leaf, GUID: p.guid(a)}] {
			there++
		}
	}
	if there < 2 {
		return false
	}
	for a, mine := range ups {
		left := 0
		for _, k := range mine {
			left += k
		}
		if 2*left < n[a] {
			return false
		}
		for b, theirs := range ups {
			shared := a == b
			for s := range mine {
				shared = shared || mine[s] > 0 && theirs[s] > 0
			}
			if !shared {
				return false
			}
		}
	}
	return true
}

func (w *world) pull(*rand.Rand) {
	for _, c := range w.cablesAbout(func(r *rand.Rand) int { return 1 + r.IntN(3)*r.IntN(2) }, func(c *cable) bool { return !c.pulled }, func(c *cable) { c.pulled = true }) {
		w.change("pull "+w.name(c), func() { w.plant.cables[c].pulled = true })
	}
}

func (w *world) plug(*rand.Rand) {
	for _, c := range w.cablesAbout(func(r *rand.Rand) int { return 1 + r.IntN(4)*r.IntN(2) }, func(c *cable) bool { return c.pulled }, func(c *cable) { c.pulled = false }) {
		w.change("plug "+w.name(c), func() { w.plant.cables[c].pulled = false })
	}
}

// later changes the fabric after some time.
func (w *world) later(d time.Duration, do func()) {
	w.changes++
	w.after(d, func() { w.changes--; do() })
}

// flap pulls and plugs a cable some times.
func (w *world) flap(r *rand.Rand) {
	r.Uint64() // the first number has chosen the cable
	for _, c := range w.cablesAbout(one, func(c *cable) bool { return !c.pulled }, func(c *cable) { c.bounces++ }) {
		x := &w.plant.cables[c]
		at := time.Duration(0)
		for range 1 + r.IntN(4) {
			x.bounces++
			w.later(at, func() {
				if !x.pulled {
					w.change("flap "+w.name(c), func() { x.pulled = true })
				}
			})
			at += time.Duration(1+r.IntN(150)) * time.Millisecond
			w.later(at, func() {
				x.bounces--
				w.change("and back "+w.name(c), func() { x.pulled = false })
			})
			at += time.Duration(r.IntN(400)) * time.Millisecond
		}
	}
}

// strand has a leaf keep a drained cable alone for some time.
func (w *world) strand(r *rand.Rand) {
	names := w.about(func(r *rand.Rand) (names []string) {
		if part, ok := pick(r, w.ordered); ok && part.Kind == exclusions.Cable {
			for _, c := range w.trunks(func(c *cable) bool { return !c.pulled }) {
				if x := w.cablePart(c); x != part && x.GUID == part.GUID {
					names = append(names, w.name(c))
				}
			}
		}
		return names
	})
	back := time.Duration(50+r.IntN(1000)) * time.Millisecond
	for _, name := range names {
		x := &w.plant.cables[w.cableNamed(name)]
		x.bounces++
		w.change("strand, pull "+name, func() { x.pulled = true })
		w.later(back, func() {
			x.bounces--
			w.change("and back "+name, func() { x.pulled = false })
		})
	}
}

// slow has a cable run at a lower width, or at its own again, once it has trained anew.
func (w *world) slow(*rand.Rand) {
	for _, c := range w.cablesAbout(one, func(*cable) bool { return true }, func(c *cable) { c.slow = !c.slow }) {
		x := &w.plant.cables[c]
		if x.pulled {
			return
		}
		x.slow = !x.slow
		w.change("train "+w.name(c), func() { x.pulled = true })
		w.later(w.between(5, 60), func() {
			w.change(fmt.Sprintf("trained, slow: %v", x.slow), func() { x.pulled = false })
		})
	}
}

// turnSwitch turns a switch off, or the one that is off on.
func (w *world) turnSwitch(*rand.Rand) {
	p := w.plant
	own, _ := p.uplink(w.sides[0].manager.host)
	if w.set.pair {
		own = -1 // the other manager takes over
	}
	names := w.about(func(r *rand.Rand) []string {
		var on []int
		for i := range p.nodes {
			if n := &p.nodes[i]; n.isSwitch && n.off {
				return []string{p.whole.Nodes[i].Name}
			} else if n.isSwitch && i != own {
				on = append(on, i)
			}
		}
		i, ok := pick(r, on)
		if !ok {
			return nil
		}
		p.nodes[i].off = true
		good := w.enough()
		if p.nodes[i].off = false; !good {
			return nil
		}
		return []string{p.whole.Nodes[i].Name}
	})
	for _, name := range names {
		n := &p.nodes[w.nodeNamed(name)]
		if n.off {
			w.change("on "+name, func() { n.off, n.blank, n.table = false, true, p.empty() })
			for _, c := range p.at[w.nodeNamed(name)] {
				if c >= 0 {
					p.cables[c].errors = 0
				}
			}
		} else {
			w.change("off "+name, func() { n.off = true })
		}
	}
}

// turnHost turns a host off or on.
func (w *world) turnHost(*rand.Rand) {
	p := w.plant
	names := w.about(func(r *rand.Rand) []string {
		var off, on []int
		for _, h := range w.hosts() {
			if p.nodes[h].off {
				off = append(off, h)
			} else if !slices.ContainsFunc(w.sides, func(s *side) bool { return s.manager.host == h }) {
				on = append(on, h)
			}
		}
		if h, ok := pick(r, off); ok && (r.IntN(2) == 0 || len(off) > 3) {
			return []string{p.whole.Nodes[h].Name}
		} else if h, ok := pick(r, on); ok {
			return []string{p.whole.Nodes[h].Name}
		}
		return nil
	})
	for _, name := range names {
		n := &p.nodes[w.nodeNamed(name)]
		w.change(fmt.Sprintf("%s, on: %v", name, n.off), func() { n.off = !n.off })
	}
}

func (w *world) restartManager(r *rand.Rand) {
	if w.manager.pid == 0 {
		return
	}
	w.manager.stop()
	w.after(time.Duration(r.IntN(3000))*time.Millisecond, w.manager.startAgain)
}

// missManager has a manager be away for longer than one that stands by waits.
func (w *world) missManager(r *rand.Rand) {
	if w.manager.pid != 0 {
		w.manager.stop()
		w.after(time.Duration(3000+r.IntN(20_000))*time.Millisecond, w.manager.startAgain)
	}
}

// handOver gives the other manager the higher priority: it becomes the master at once, and the
// one before hears of that a little later.
func (w *world) handOver(r *rand.Rand) {
	w.prefers = 1 - w.prefers
	w.note("the manager at %d has the higher priority", w.prefers)
	next, was := w.sides[w.prefers].manager, w.sides[1-w.prefers].manager
	if !was.master || next.master || was.rival() != next {
		return // it is found by sweeps
	}
	w.side = next.side
	next.rule()
	w.side = was.side
	was.step(time.Duration(r.IntN(20_000))*time.Microsecond, was.stand)
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

// stepClock has the clock of the host be set while forsd does not run: the time of day and the
// time since the machine was booted go on by different amounts. Nothing else happens meanwhile.
func (w *world) stepClock(r *rand.Rand) {
	var day, boot time.Duration
	if r.IntN(3) > 0 {
		day = time.Duration(r.IntN(7200_000)) * time.Millisecond
	}
	if r.IntN(3) > 0 {
		boot = time.Duration(r.IntN(600_000)) * time.Millisecond
	}
	w.each(func() {
		if w.forsd != nil {
			w.kill()
		}
	})
	w.note("%v pass by the time of day, and %v in truth", day, boot)
	for i := range w.queue {
		w.queue[i].at = w.queue[i].at.Add(day)
	}
	time.Sleep(day)
	w.booted += boot - day
	w.each(func() { w.again(r) })
}

// part cuts the network between the two forsd, or mends it.
func (w *world) part(*rand.Rand) {
	w.apart = !w.apart
	w.note("the two forsd are apart: %v", w.apart)
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
func (w *world) spoilDisk(r *rand.Rand) { w.spoil(w.disk, "disk", r) }

// spoilTables has the disk of the table file fail, or mends it: OpenSM reads the file as it was.
func (w *world) spoilTables(r *rand.Rand) { w.spoil(w.tables, "table file's disk", r) }

func (w *world) spoil(d *disk, what string, r *rand.Rand) {
	switch {
	case d.fault != "":
		w.note("the %s is mended: %s", what, d.fault)
		d.mend()
	case d.mounted: // otherwise, whatever fails takes the files away
		fault, _ := pick(r, []string{"full", "read-only"})
		d.fail(fault)
		w.note("the %s is %s", what, d.fault)
	}
}

func (w *world) mendDisks() {
	if w.disk.fault != "" {
		w.spoilDisk(nil)
	}
	if w.tables.fault != "" {
		w.spoilTables(nil)
	}
}

// stall has forsd get no processor for some time, while its kernel takes datagrams and connections.
func (w *world) stall(r *rand.Rand) {
	if w.forsd == nil {
		return
	}
	most := 200
	if r.IntN(4) == 0 {
		most = 5000
	}
	pause := time.Duration(20+r.IntN(most)) * time.Millisecond
	w.stalled = time.Now().Add(pause)
	w.note("forsd stands still for %v%s", pause, w.where())
}

// unplug cuts the plugin's connection.
func (w *world) unplug(r *rand.Rand) {
	if w.manager.linked {
		w.note("the plugin's connection is cut%s", w.where())
		w.manager.disconnect()
		w.after(time.Duration(r.IntN(2000))*time.Millisecond, w.manager.connect)
	}
}
