package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forsd/forsd/bipartite"
	"github.com/forsd/forsd/internal/parallel"
)

// errSeats means that the leaves of a pod cannot be seated on its units: another division,
// or more blocks, may help.
var errSeats = errors.New("the leaves of a pod cannot be seated")

// seater seats leaves, servers and groups on units. Its memory is used again.
type seater struct {
	*instance
	d       *division
	u       *units
	seating bipartite.Seats
	flow    bipartite.Flow
	order   []int32 // units at hand
	next    []int32
	count   []int32
	arcs    []int32 // [place in order] its arc in flow, −1 if none
	want    []int32 // [key]
	rowAt   []int32 // [place in order] its row
	keyAt   []int32 // [place in order] its key
}

// each runs a step for the numbers below n on several goroutines, and returns the error of
// the lowest.
func (x *instance) each(ctx context.Context, d *division, u *units, n int, step func(w *seater, ctx context.Context, i int) error) error {
	_, err := parallel.Each(ctx, n, x.workers, func(int) func(int) error {
		w := &seater{instance: x, d: d, u: u}
		return func(i int) error { return step(w, ctx, i) }
	})
	return err
}

// plane returns the plane of a unit on cables.
func (w *seater) plane(u int32) int32 {
	way := int32(w.u.way[u])
	if lanes := int32(w.Lanes()); way >= lanes {
		return way - lanes
	}
	return w.planeOf[way]
}

// seat seats both ends of all units: the leaf and then the server of the destination, the
// leaf and then the group of the source. The first and the third go pod by pod, the others
// leaf by leaf. If sources are first, servers come last: then a leaf does not have to find
// a unit to each server, only enough to each leaf; but a server's units from a pod are not
// spread over the planes, and it needs more LIDs.
func (x *instance) seat(ctx context.Context, d *division, u *units) error {
	n := len(u.block)
	own := 0
	for i := range x.cells {
		if c := &x.cells[i]; c.own {
			own += int(c.s * c.n)
		}
	}
	u.src, u.dst, u.to = make([]int32, n, n+own), make([]int32, n, n+own), make([]int32, n+own)
	u.own = own
	into := bipartite.IndexBy(x.Pods, u.q)
	if err := x.each(ctx, d, u, x.Pods, func(w *seater, ctx context.Context, p int) error {
		return w.seatLeaves(ctx, p, into.Of(p), inward)
	}); err != nil {
		return err
	}
	x.addOwn(u)
	byLeaf := bipartite.IndexBy(len(x.Leaves), u.dst)
	servers := func() error {
		return x.each(ctx, d, u, len(x.Leaves), func(w *seater, ctx context.Context, b int) error {
			return w.seatServers(ctx, b, byLeaf.Of(b))
		})
	}
	if !x.sourcesFirst {
		if err := servers(); err != nil {
			return err
		}
	}
	cables := u.onCables()
	outOf := bipartite.IndexBy(x.Pods, u.p[:cables])
	if err := x.each(ctx, d, u, x.Pods, func(w *seater, ctx context.Context, p int) error {
		return w.seatLeaves(ctx, p, outOf.Of(p), outward)
	}); err != nil {
		return err
	}
	u.group = make([]int16, len(u.block))
	if x.mostGroups() > 1 {
		from := bipartite.IndexBy(len(x.Leaves), u.src)
		if err := x.each(ctx, d, u, len(x.Leaves), func(w *seater, ctx context.Context, a int) error {
			return w.seatGroups(ctx, a, from.Of(a))
		}); err != nil {
			return err
		}
	}
	if x.sourcesFirst {
		return servers()
	}
	return nil
}

func (x *instance) mostGroups() int32 {
	most := int32(0)
	for i := range x.cells {
		most = max(most, x.cells[i].s)
	}
	return most
}

// addOwn adds the units that leaves send to themselves without a plane, as many in each
// block as the leaf has servers more than planes.
func (x *instance) addOwn(u *units) {
	for i := range x.cells {
		c := &x.cells[i]
		if !c.own {
			continue
		}
		free := c.n - c.planes
		for k := range c.s * c.n {
			u.add(k/free, -1, int16(c.pod), int16(c.pod))
			u.src, u.dst = append(u.src, c.leaves[0]), append(u.dst, c.leaves[0])
		}
	}
}

// The two ends of a unit.
const (
	outward = false
	inward  = true
)

// seatLeaves seats the leaves of a pod on its units, as destinations or as sources. In a
// block a leaf has at most one unit on a plane, and none if its cable is dead. As a
// destination it has n units from each group, as a source one for each of its groups and
// each server. Cells are seated one after the other, by a flow each; the last one takes the
// rest, and then the leaves of each cell.
func (w *seater) seatLeaves(ctx context.Context, pod int, all []int32, in bool) error {
	w.order = append(w.order[:0], all...)
	cells := make([]*cell, len(w.ofPod[pod]))
	for i, c := range w.ofPod[pod] {
		cells[i] = &w.cells[c]
	}
	for i, c := range w.ofPod[pod] {
		if i < len(cells)-1 || cells[i].own {
			take := func(strict bool) error {
				return w.extract(cells[i], cells[i+1:], in, strict, func(key int32) int32 { return w.wanted(c, key, in, strict) })
			}
			err := take(in)
			if err != nil && in {
				err = take(false)
			}
			if err != nil {
				return err
			}
		} else {
			w.next = append(w.next[:0], w.order...)
			w.order = w.order[:0]
		}
		if err := w.seatCell(ctx, cells[i], in); err != nil {
			return err
		}
	}
	if len(w.order) > 0 {
		return fmt.Errorf("%w: pod %d has %d units left", errSeats, pod, len(w.order))
	}
	return nil
}

// seatCell seats the leaves of a cell on the units in next.
func (w *seater) seatCell(ctx context.Context, c *cell, in bool) error {
	if !c.tight(w.group) {
		return w.share(ctx, c, in)
	}
	if len(c.leaves) == 1 {
		return w.split(c, w.next, in)
	}
	units, rest := slices.Clone(w.next), slices.Clone(w.order)
	err := w.split(c, units, in)
	w.order = append(w.order[:0], rest...)
	return err
}

// share shares the units in next among the leaves of a cell, which are the colours of a
// bipartite graph: to the left the planes of the blocks, to the right what is between the
// cell and a key, in order of planes, cut into as many as there are leaves.
func (w *seater) share(ctx context.Context, c *cell, in bool) error {
	leaves, seats := c.leaves, w.seats(in)
	if len(leaves) == 1 {
		for _, u := range w.next {
			seats[u] = leaves[0]
		}
		return nil
	}
	planes := int32(w.Planes())
	w.rowAt, w.keyAt = w.rowAt[:0], w.keyAt[:0]
	for _, u := range w.next {
		w.rowAt = append(w.rowAt, w.u.block[u]*planes+w.plane(u))
		w.keyAt = append(w.keyAt, w.key(u, in, false)*planes+w.plane(u))
	}
	return w.colour(ctx, len(leaves), int(w.blocks*planes), int(w.keys(in, false)*planes), func(u int32, colour uint16) { seats[u] = leaves[colour] })
}

// seats returns the leaves of the units, as destinations or as sources.
func (w *seater) seats(in bool) []int32 {
	if in {
		return w.u.dst
	}
	return w.u.src
}

// colour seats the units in next: those of one row have different seats, and so have those
// of one part of a key; keys in order are cut into parts of as many units as there are seats.
// Keys are numbered so that what belongs together is in a row.
func (w *seater) colour(ctx context.Context, seats, rows, keys int, seat func(u int32, colour uint16)) error {
	if err := w.seating.Give(ctx, seats, rows, keys, w.rowAt, w.keyAt); err != nil {
		return fmt.Errorf("%w: %w", errSeats, err)
	}
	for i, u := range w.next {
		seat(u, w.seating.Of(i))
	}
	return nil
}

// seatServers seats the servers of leaf b on the units that it receives: on the left the
// blocks, on the right the units from each pod, plane after plane, or from each group if
// that is known, cut into as many parts as there are servers.
func (w *seater) seatServers(ctx context.Context, b int, all []int32) error {
	w.next = append(w.next[:0], all...)
	w.rowAt, w.keyAt = w.rowAt[:0], w.keyAt[:0]
	planes, most := int32(w.Planes())+1, w.mostGroups()
	keys := max(int32(w.Pods)*planes, int32(len(w.Leaves))*most)
	if !w.sourcesFirst {
		w.rankPlanes(planes)
	}
	for _, u := range w.next {
		w.rowAt = append(w.rowAt, w.u.block[u])
		if w.sourcesFirst {
			w.keyAt = append(w.keyAt, w.u.src[u]*most+int32(w.u.group[u]))
		} else {
			w.keyAt = append(w.keyAt, w.want[int32(w.u.p[u])*planes+w.planeOrNone(u)])
		}
	}
	base := w.base[b]
	return w.colour(ctx, len(w.Leaves[b].Slots), int(w.blocks), int(keys), func(u int32, colour uint16) { w.u.to[u] = base + int32(colour) })
}

// planeOrNone returns the plane of a unit, or one more if it is not on a cable.
func (w *seater) planeOrNone(u int32) int32 {
	if w.u.way[u] < 0 {
		return int32(w.Planes())
	}
	return w.plane(u)
}

// rankPlanes fills want with a key for each pod and plane of the units in next: of the
// planes of a pod those with the most units come first, so that no server has more than
// necessary on one; units on no cable come last, an equal part for each server.
func (w *seater) rankPlanes(planes int32) {
	n := int32(w.Pods) * planes
	w.want, w.count = grow(w.want, int(n)), grow(w.count, int(n))
	clear(w.count)
	for _, u := range w.next {
		w.count[int32(w.u.p[u])*planes+w.planeOrNone(u)]++
	}
	for p := range int32(w.Pods) {
		counts := w.count[p*planes:][:planes]
		for j, c := range counts {
			before := int32(0)
			for i, o := range counts {
				if int32(i) < planes-1 && (o > c || o == c && i < j || int32(j) == planes-1) {
					before++
				}
			}
			w.want[p*planes+int32(j)] = p*planes + before
		}
	}
}

// seatGroups seats the groups of leaf a on the units that it sends: to the left the blocks,
// as often as a group may send in one; to the right the servers, or leaves, cut.
func (w *seater) seatGroups(ctx context.Context, a int, all []int32) error {
	s := w.cells[w.cellOf[a]].s
	if s == 1 {
		return nil
	}
	w.next = append(w.next[:0], all...)
	w.rowAt, w.keyAt = w.rowAt[:0], w.keyAt[:0]
	seen := make([]int32, w.blocks)
	for _, u := range w.next {
		b := w.u.block[u]
		w.rowAt = append(w.rowAt, b*w.group+seen[b]/s)
		seen[b]++
		w.keyAt = append(w.keyAt, w.key(u, outward, false))
	}
	for _, n := range seen {
		if n > s*w.group {
			return fmt.Errorf("%w: leaf %d sends %d units in a block of %d", errSeats, a, n, s*w.group)
		}
	}
	return w.colour(ctx, int(s), int(w.blocks*w.group), len(w.homeOf), func(u int32, colour uint16) { w.u.group[u] = int16(colour) })
}
