package verify

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Walk checks the phases of a plan one after the other, on a fabric of any shape, and only
// stores which pairs it has seen, a bit for each. It follows every transfer by its DLID
// from switch to switch through the tables.
type Walk struct {
	*network
	servers []topology.EndPort
	ends    []end   // [server]
	at      []int32 // [server] the switch that it is cabled to
	seen    pairs
	phase   int
	taken   []int32 // [channel] the last phase in which a transfer took it, plus one
	busy    []int32 // [server] the last phase in which it received, plus one
	sent    []int32 // [server] the last phase in which it sent, plus one
	known   []trail // by switch and LID, as far as there is room; its length is a power of two
	new     []trail // to be followed
}

// end is where a server receives, and its LIDs.
type end struct {
	at          place
	lid, beyond int32
}

// trail is where an LID leads from a switch.
type trail struct {
	key  uint64 // the switch, shifted by 32, and the LID, plus one; 0 if unused
	by   [mostKnown]channel
	goal place // nowhere where it does not arrive over so many channels
	n    int32 // channels
}

// mostKnown is the most channels between switches of a trail: those of a fat tree of three
// levels.
const mostKnown = 4

// Transfer is what one server sends to another in a phase; servers are numbered as given
// to NewWalk.
type Transfer struct {
	Src, Dst int32
	DLID     ib.LID
}

// mostSwitches bounds a path.
const mostSwitches = 64

// NewWalk begins to check a plan on tables. Every server is an end port with a cable to a
// switch.
func NewWalk(f *topology.Fabric, tables *lft.Tables, servers []topology.EndPort) (*Walk, error) {
	n := newNetwork(f, tables)
	w := &Walk{network: n, servers: servers, seen: newPairs(len(servers)), taken: make([]int32, len(n.next)),
		busy: make([]int32, len(servers)), sent: make([]int32, len(servers))}
	w.known = make([]trail, 1<<bits.Len(uint(4*len(servers)+1)))
	for _, s := range servers {
		port := f.At(s.PortRef)
		if !port.Up() || n.switchOf[port.Peer] < 0 {
			return nil, violation(BadRows, NoPhase, "%s has no cable to a switch", f.PortLabel(s.PortRef))
		}
		w.ends = append(w.ends, end{n.firstEnd[s.Node] + place(s.Port), int32(s.LID), min(int32(s.LID)+1<<s.LMC, int32(len(n.owner)))})
		w.at = append(w.at, n.switchOf[port.Peer])
	}
	return w, nil
}

// Phase checks the next phase. The error is a *Violation.
func (w *Walk) Phase(transfers []Transfer) error {
	if v := w.followAll(transfers); v != nil {
		return v
	}
	for _, t := range transfers {
		if !w.seen.see(t.Src, t.Dst) {
			return violation(PairTwice, w.phase, "%s occurs again", w.pair(t.Src, t.Dst))
		}
	}
	w.phase++
	return nil
}

// Had counts a pair as one whose transfer is over. The error is a *Violation.
func (w *Walk) Had(s, d int32) error {
	if !w.seen.see(s, d) {
		return violation(PairTwice, NoPhase, "%s has had its transfer twice in what is done", w.pair(s, d))
	}
	return nil
}

// Again lets all pairs occur again, in an exchange that serves them bit by bit.
func (w *Walk) Again() {
	w.seen = newPairs(len(w.servers))
}

// chunk is how many phases a goroutine checks in a row: what they share is looked up once,
// and the pairs of a source are counted together.
const chunk = 96

// Phases checks so many phases on several goroutines. Each goroutine calls rows for its own
// function, which returns the transfers of a phase; an error of that function ends all.
// Otherwise the error is that of Phase, phase after phase.
func (w *Walk) Phases(phases, workers int, rows func() func(phase int) ([]Transfer, error)) error {
	parts := make([]*Walk, max(1, workers))
	err := parallel.All(phases/chunk+1, len(parts), func(number int) func(int) error {
		part, row, to := w.another(), rows(), make([]int32, chunk*len(w.servers))
		parts[number] = part
		return func(i int) error {
			return part.check(min(chunk, phases-i*chunk), to, func(ph int) ([]Transfer, error) { return row(i*chunk + ph) })
		}
	})
	if err == nil && w.join(parts) {
		w.phase += phases
		return nil
	}
	row := rows()
	for ph := range phases { // for the first violation
		transfers, err := row(ph)
		if err == nil {
			err = w.Phase(transfers)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// another returns the same walk with nothing seen.
func (w *Walk) another() *Walk {
	part := *w
	part.seen.bits, part.taken, part.known, part.new = make([]uint64, len(w.seen.bits)), make([]int32, len(w.taken)), make([]trail, len(w.known)), nil
	part.busy, part.sent = make([]int32, len(w.busy)), make([]int32, len(w.sent))
	return &part
}

// check checks some phases, and counts their pairs source after source, by to.
func (w *Walk) check(phases int, to []int32, row func(phase int) ([]Transfer, error)) error {
	n := len(w.servers)
	for ph := range phases {
		of := to[ph*n:][:n]
		for s := range of {
			of[s] = -1
		}
		transfers, err := row(ph)
		if err != nil {
			return err
		}
		if v := w.followAll(transfers); v != nil {
			return v
		}
		for _, t := range transfers {
			of[t.Src] = t.Dst
		}
		w.phase++
	}
	for s := range n {
		for ph := range phases {
			if d := to[ph*n+s]; d >= 0 && !w.seen.see(int32(s), d) {
				return violation(PairTwice, NoPhase, "%s occurs again", w.pair(int32(s), d))
			}
		}
	}
	return nil
}

// join takes over the pairs that others have seen, unless one was seen twice.
func (w *Walk) join(parts []*Walk) bool {
	parts = slices.DeleteFunc(parts, func(p *Walk) bool { return p == nil })
	all := slices.Clone(w.seen.bits)
	for _, p := range parts {
		for i, word := range p.seen.bits {
			if all[i]&word != 0 {
				return false
			}
			all[i] |= word
		}
	}
	w.seen.bits = all
	return true
}

// followAll checks the transfers of a phase, but for their pairs.
func (w *Walk) followAll(transfers []Transfer) *Violation {
	w.learn(transfers)
	for _, t := range transfers {
		if v := w.follow(t); v != nil {
			return v
		}
	}
	return nil
}

// follow checks one transfer, but for its pair.
func (w *Walk) follow(t Transfer) *Violation {
	mark := int32(w.phase + 1)
	n := int32(len(w.servers))
	if t.Src < 0 || t.Src >= n || t.Dst < 0 || t.Dst >= n || t.Src == t.Dst {
		return violation(BadRows, w.phase, "a transfer from server %d to server %d: there are %d servers", t.Src, t.Dst, n)
	}
	if w.sent[t.Src] == mark {
		return violation(SendsTwice, w.phase, "%s sends twice", w.name(t.Src))
	}
	if w.busy[t.Dst] == mark {
		return violation(ReceivesTwice, w.phase, "%s receives twice", w.name(t.Dst))
	}
	w.sent[t.Src], w.busy[t.Dst] = mark, mark
	d := &w.ends[t.Dst]
	if int32(t.DLID) < d.lid || int32(t.DLID) >= d.beyond {
		return violation(WrongDLID, w.phase, "%s has DLID %d, which is none of the destination's", w.pair(t.Src, t.Dst), t.DLID)
	}
	way := w.find(w.at[t.Src], int32(t.DLID))
	if way == nil {
		w.learn([]Transfer{t})
		way = w.find(w.at[t.Src], int32(t.DLID))
	}
	if way.goal != d.at {
		return w.step(t, mark)
	}
	return w.occupy(t, way.by[:way.n], mark)
}

// occupy marks the channels of a transfer, unless another one of the phase has one of them.
func (w *Walk) occupy(t Transfer, way []channel, mark int32) *Violation {
	for _, c := range way {
		if w.taken[c] == mark {
			return violation(LinkTwice, w.phase, "%s by LID %d takes %s, as another transfer does", w.pair(t.Src, t.Dst), t.DLID, w.portLabel(c))
		}
		w.taken[c] = mark
	}
	return nil
}

// slot returns the first of the two slots for a trail.
func (w *Walk) slot(key uint64) uint64 {
	return key * 0x9E3779B97F4A7C15 >> 32 & uint64(len(w.known)-1)
}

func trailKey(at, lid int32) uint64 { return uint64(at)<<32 | uint64(lid+1) }

// find returns the trail of an LID from a switch, nil if unknown.
func (w *Walk) find(at, lid int32) *trail {
	key := trailKey(at, lid)
	i := w.slot(key)
	if w.known[i].key == key {
		return &w.known[i]
	}
	if w.known[i^1].key == key {
		return &w.known[i^1]
	}
	return nil
}

// learn finds the trails of transfers that are not known, all of them hop by hop: the
// lookups of a hop do not wait for each other.
func (w *Walk) learn(transfers []Transfer) {
	w.new = w.new[:0]
	for _, t := range transfers {
		if uint(t.Src) < uint(len(w.at)) && int(t.DLID) < len(w.owner) && w.find(w.at[t.Src], int32(t.DLID)) == nil {
			w.new = append(w.new, trail{key: trailKey(w.at[t.Src], int32(t.DLID)), goal: nowhere})
		}
	}
	for hop := range mostKnown + 1 {
		for i := range w.new {
			x := &w.new[i]
			if int(x.n) != hop {
				continue // it has ended
			}
			at, lid := int32(x.key>>32), int(uint32(x.key))-1
			if hop > 0 {
				at = w.next[x.by[hop-1]]
			}
			c := w.through(at, lid)
			if to := w.next[c]; to == w.owner[lid] {
				x.goal = to
			} else if w.isSwitch(to) && hop < mostKnown {
				x.by[hop], x.n = c, x.n+1
			}
		}
	}
	for i := range w.new {
		at := w.slot(w.new[i].key)
		w.known[at^1], w.known[at] = w.known[at], w.new[i]
	}
}

// step follows a transfer over any number of switches, and names the fault if it does not
// arrive.
func (w *Walk) step(t Transfer, mark int32) *Violation {
	lid, at, goal := int(t.DLID), w.at[t.Src], w.ends[t.Dst].at
	var way []channel
	for {
		c := w.through(at, lid)
		to := w.next[c]
		switch {
		case to == goal:
			return w.occupy(t, way, mark)
		case len(way) == mostSwitches:
			return violation(Loop, w.phase, "%s by LID %d goes over more than %d switches", w.pair(t.Src, t.Dst), lid, mostSwitches)
		case c&(ports-1) == channel(lft.NoPath):
			return violation(NoEntry, w.phase, "%s: %s has no entry for LID %d", w.pair(t.Src, t.Dst), w.label(at), lid)
		case to == nowhere:
			_, why := w.fault(c)
			return violation(DownPort, w.phase, "%s by LID %d: %s", w.pair(t.Src, t.Dst), lid, why)
		case !w.isSwitch(to):
			return violation(WrongDestination, w.phase, "%s by LID %d comes to %s", w.pair(t.Src, t.Dst), lid, w.placeLabel(to))
		}
		way = append(way, c)
		at = to
	}
}

// Done checks that every ordered pair of an exchange has occurred once, or is declared
// unreachable and has no path in the tree over cables that are up at full rate.
func (w *Walk) Done(t *topology.PodTree, unreachable [][2]int32) error {
	if s, d, ok := w.seen.others(&t.Common); ok {
		return violation(PairForeign, NoPhase, "%s: the two are in different exchanges", w.pair(s, d))
	}
	for _, u := range unreachable {
		if !w.seen.see(u[0], u[1]) {
			return violation(PairTwice, NoPhase, "%s is called unreachable, and occurs or is called so twice", w.pair(u[0], u[1]))
		}
		a, b := w.leaf(t, u[0]), w.leaf(t, u[1])
		if a == b || wayBetween(t, a, b) {
			return violation(NotUnreachable, NoPhase, "%s is called unreachable, and has a way", w.pair(u[0], u[1]))
		}
	}
	if s, d, ok := w.seen.missing(); ok {
		return violation(PairMissing, NoPhase, "%s is in no phase", w.pair(s, d))
	}
	return nil
}

// leaf returns the leaf of a server of the tree.
func (w *Walk) leaf(t *topology.PodTree, s int32) *topology.PodLeaf {
	for l := range t.Leaves {
		if t.Leaves[l].Node == w.nodes[w.at[s]] {
			return &t.Leaves[l]
		}
	}
	return nil
}

// wayBetween reports whether a plane joins two leaves.
func wayBetween(t *topology.PodTree, a, b *topology.PodLeaf) bool {
	for j := range t.Planes {
		if a.Cables[j].State != topology.Full || b.Cables[j].State != topology.Full {
			continue
		}
		if a.Pod == b.Pod {
			return true
		}
		for k := range t.Lanes {
			if t.Lanes[k].Plane == j && t.LaneUp(a.Pod, k) && t.LaneUp(b.Pod, k) {
				return true
			}
		}
	}
	return false
}

func (w *Walk) name(s int32) string { return w.fabric.PortLabel(w.servers[s].PortRef) }

func (w *Walk) pair(s, d int32) string { return fmt.Sprintf("%s → %s", w.name(s), w.name(d)) }
