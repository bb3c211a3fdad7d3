package fors

import (
	"context"
	"fmt"
	"slices"
)

const (
	// destWork limits the steps along alternating paths of all searches of one plan, 10 to
	// 30 ns each.
	destWork = 1 << 25
	// blockWork and phaseWork are the limits of one search, by blocks and by phases; by
	// blocks at least edgeWork for each edge of the graph: about one is needed with a dead
	// cable.
	blockWork = 1 << 17
	edgeWork  = 2
	phaseWork = 1 << 23
	// phaseEdges is the most edges of a graph of phases that is coloured while blocks can be
	// searched: with more, one more block than the bound costs little.
	phaseEdges = 1 << 23
	// smallPlan is up to how many ways by phases a search by phases is made smallTries times.
	smallPlan  = 1 << 14
	smallTries = 8
)

// phases plans in a number of phases, and more for the transfers that clash in these. It
// returns nil if it finds no lanes.
func (x *oneLID) phases(ctx context.Context, phases int, budget *int) (*Grouped, error) {
	l, ok := x.choose(phases, x.size, budget)
	if !ok {
		return nil, nil
	}
	tries := 1
	if len(l.via)*phases <= smallPlan {
		tries = smallTries
	}
	var best *destSeats
	for seed := range uint64(tries) {
		s, err := planPhases(ctx, l, phases, seed, budget)
		if err != nil {
			return nil, err
		}
		if best == nil || s.slots < best.slots {
			best = s
		}
		if best.slots == phases || *budget <= 0 {
			break
		}
	}
	return best.plan(ctx)
}

// planPhases puts the transfers on the lanes chosen into phases. The seed is of the search.
func planPhases(ctx context.Context, l *laning, phases int, seed uint64, budget *int) (*destSeats, error) {
	g := newDestFrame(l)
	if err := g.colour(ctx); err != nil {
		return nil, fmt.Errorf("set the phases: %w", err)
	}
	if g.random = seed; phases > l.tree.Peers()+1 {
		g.loosen(l.size) // every server idles in at least two phases: there is room for same-leaf transfers
	}
	if _, err := g.removeClashes(ctx, budget, phaseWork); err != nil {
		return nil, err
	}
	s := &destSeats{laning: l, slots: l.slots, local: make([][]trip, l.leaves)}
	var late []trip
	s.trips, late = g.trips()
	s.add(late)
	idle := s.idle()
	for A, size := range s.size {
		if left := s.ride(A, idle, size, size-1); left != nil {
			s.addRides(A, left)
			idle = s.idle()
		}
	}
	return s, nil
}

// destSeats gives the transfers in slots their senders.
type destSeats struct {
	*laning
	slots int
	trips [][]trip // [leaf] in order of slots
	local [][]trip // [leaf] same-leaf transfers, in order of slots
}

// trip is a unit, from a leaf to a server in a slot.
type trip struct{ slot, server int32 }

// trips reads the transfers of each leaf off the slots. Transfers that clash with others
// are returned in late, with their leaf in place of the slot.
func (g *destFrame) trips() (trips [][]trip, late []trip) {
	servers := int32(len(g.leafOf))
	counts, all := make([]int, g.leaves), 0
	for _, unit := range g.unit {
		if unit >= 0 {
			counts[unit/servers]++
			all++
		}
	}
	trips = make([][]trip, g.leaves)
	for A, room := 0, make([]trip, all); A < g.leaves; A++ {
		trips[A], room = room[:0:counts[A]], room[counts[A]:]
	}
	for slot := range g.slots {
		for _, unit := range g.unit[slot*g.n:][:g.n] {
			if unit < 0 {
				continue
			}
			A, d := unit/servers, unit%servers
			if g.clashes(slot, unit) {
				g.leave(slot, unit)
				late = append(late, trip{A, d})
			} else {
				trips[A] = append(trips[A], trip{int32(slot), d})
			}
		}
	}
	return trips, late
}

// add gives transfers additional slots, each the first in which its links and its server
// are free.
func (s *destSeats) add(late []trip) {
	type slot struct {
		taken map[int]bool // links out, links in, servers
		sends []int        // [leaf]
	}
	var extra []slot
	in, server := s.leaves*s.lanes, 2*s.leaves*s.lanes
	for _, t := range late {
		A, d := int(t.slot), int(t.server)
		k := int(s.via[A*len(s.leafOf)+d])
		takes := [3]int{A*s.lanes + k, in + int(s.leafOf[d])*s.lanes + s.down(d, k), server + d}
		at := 0
		for at < len(extra) && (extra[at].sends[A] == s.size[A] || slices.ContainsFunc(takes[:], func(x int) bool { return extra[at].taken[x] })) {
			at++
		}
		if at == len(extra) {
			extra = append(extra, slot{map[int]bool{}, make([]int, s.leaves)})
		}
		for _, x := range takes {
			extra[at].taken[x] = true
		}
		extra[at].sends[A]++
		s.trips[A] = append(s.trips[A], trip{int32(s.slots + at), t.server})
	}
	s.slots += len(extra)
	for _, trips := range s.trips {
		slices.SortStableFunc(trips, func(a, b trip) int { return int(a.slot - b.slot) })
	}
}

// idle returns the slots in which servers receive nothing from other leaves.
func (s *destSeats) idle() [][]int32 {
	hears := make([]bool, len(s.leafOf)*s.slots) // [server·slots + slot]
	for _, trips := range s.trips {
		for _, t := range trips {
			hears[int(t.server)*s.slots+int(t.slot)] = true
		}
	}
	idle := make([][]int32, len(s.leafOf))
	for d := range idle {
		for slot, hears := range hears[d*s.slots:][:s.slots] {
			if !hears {
				idle[d] = append(idle[d], int32(slot))
			}
		}
	}
	return idle
}

// ride gives each server of leaf A the given number of slots for same-leaf transfers, in
// which it receives nothing else and its leaf sends fewer than most transfers. left lists
// the servers that lack slots, once for each. idle is of all servers.
func (s *destSeats) ride(A int, idle [][]int32, most, each int) (left []int) {
	r := rides{idle: idle[s.base[A]:][:s.size[A]], room: slices.Repeat([]int{most}, s.slots), in: make([][]int, s.slots), seen: make([]int, s.slots)}
	for _, t := range s.trips[A] {
		r.room[t.slot]--
	}
	for range each {
		for i := range r.idle {
			if r.turn++; !r.seat(i) {
				left = append(left, i)
			}
		}
	}
	for slot, servers := range r.in {
		for _, i := range servers {
			s.local[A] = append(s.local[A], trip{int32(slot), int32(s.base[A]) + int32(i)})
		}
	}
	return left
}

// addRides adds slots for the servers that ride returned in left.
func (s *destSeats) addRides(A int, left []int) {
	first, given := int32(s.slots), make([]int32, s.size[A])
	for _, i := range left {
		s.local[A] = append(s.local[A], trip{first + given[i], int32(s.base[A]) + int32(i)})
		given[i]++
	}
	s.slots += int(slices.Max(given))
	slices.SortStableFunc(s.local[A], func(a, b trip) int { return int(a.slot - b.slot) })
}

// rides are the same-leaf transfers of a leaf.
type rides struct {
	idle [][]int32 // [server] slots in which it receives nothing from other leaves
	room []int     // [slot] transfers
	in   [][]int   // [slot] servers that have it
	seen []int     // [slot] the turn that visited it last
	turn int
}

// seat gives server i one more slot, and moves others to make room (Kuhn 1955).
func (r *rides) seat(i int) bool {
	for _, slot := range r.idle[i] {
		servers := r.in[slot]
		if r.seen[slot] == r.turn || r.room[slot] <= 0 || slices.Contains(servers, i) {
			continue
		}
		r.seen[slot] = r.turn
		if len(servers) < r.room[slot] {
			r.in[slot] = append(servers, i)
			return true
		}
		for at, other := range servers {
			if r.seat(other) {
				r.in[slot][at] = i
				return true
			}
		}
	}
	return false
}

// plan gives the transfers their senders.
func (s *destSeats) plan(ctx context.Context) (*Grouped, error) {
	x := timetables.Get().(*timetable)
	defer func() {
		x.net, x.plan = nil, nil
		timetables.Put(x)
	}()
	x.net, x.plan, x.workers = s.net, NewPlan(Exact, len(s.leafOf), s.slots), s.workers
	if err := x.eachLeaf(ctx, func(w *seater, ctx context.Context, A int) error { return s.seat(ctx, w, A) }); err != nil {
		return nil, err
	}
	return s.grouped(x.plan), nil
}

// seat gives the transfers of leaf A their senders: those to a server have different ones.
func (s *destSeats) seat(ctx context.Context, w *seater, A int) error {
	names, sender, err := w.seatNamed(ctx, A, func(A int) { s.enter(w, A) })
	if err != nil {
		return err
	}
	boarded := w.boarded[:names]
	for i, c := range w.Seat[:names] {
		if t := &boarded[i]; t.phase >= 0 {
			at := int(t.phase)*w.plan.Servers + int(sender[c])
			w.plan.To[at], w.plan.Lane[at] = Server(t.at), t.lane
		}
	}
	return nil
}

// enter adds the transfers of leaf A, with their destinations, to the seater.
func (s *destSeats) enter(w *seater, A int) {
	trips, locals := s.trips[A], s.local[A]
	for slot := range int32(s.slots) {
		at := w.used
		take := func(d int32, lane Lane) {
			w.boarded[at], w.Rows[at] = boarded{Phase(slot), d, lane}, w.vertexOf[d]
			at++
		}
		for ; len(trips) > 0 && trips[0].slot == slot; trips = trips[1:] {
			d := trips[0].server
			take(d, s.via[A*len(s.leafOf)+int(d)])
		}
		for ; len(locals) > 0 && locals[0].slot == slot; locals = locals[1:] {
			take(locals[0].server, Local)
		}
		w.board(at - w.used)
	}
}

// grouped returns a plan with the data that tables and addresses follow from.
func (s *destSeats) grouped(plan *Plan) *Grouped {
	p := &Grouped{Plan: plan, LIDs: 1, GroupSize: slices.Max(s.size), Group: make([]int, plan.Servers), Via: s.byLeaf(s.via), Down: s.downs()}
	p.dropEmpty()
	return p
}
