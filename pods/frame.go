package pods

import (
	"context"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// frame is the graph whose edges are the units and whose colours are the blocks. A pod has
// an out-bin and an in-bin for each of its living cables to tops and, if a plane has more
// leaves than cables, loops: bins for units within the pod. Room in the bins of a plane
// that is not needed goes to dummies, as few as possible: so the numbers of units of a
// plane in any two blocks differ by at most one.
type frame struct {
	*instance
	*division
	graph     bipartite.Frame
	outs, ins bins
}

// bins are the vertices of one side.
type bins struct {
	bipartite.Side         // of pods
	lane           []int32 // [bin] −1 for a loop
	plane          []int32 // [bin]
	at             []int32 // [pod·lanes + lane] bin
}

func (b *bins) add(pod, lane, plane, room int32) int32 {
	b.lane, b.plane = append(b.lane, lane), append(b.plane, plane)
	return b.Add(pod, room)
}

// units are what one group sends to one server, by block.
type units struct {
	block []int32
	way   []int16 // lane; lanes + plane within a pod; −1 within a leaf
	p, q  []int16 // pods
	src   []int32 // leaf
	dst   []int32 // leaf
	to    []int32 // server
	group []int16 // of its leaf
	own   int     // how many are within a leaf and on no cable: the last ones
}

// onCables returns how many are on cables.
func (u *units) onCables() int { return len(u.block) - u.own }

func (u *units) add(block int32, way, p, q int16) {
	u.block, u.way, u.p, u.q = append(u.block, block), append(u.way, way), append(u.p, p), append(u.q, q)
}

// setBlocks colours the graph, and makes units of its edges, in order of blocks.
func (x *instance) setBlocks(ctx context.Context, d *division) (*units, error) {
	f := &frame{instance: x, division: d}
	f.graph = bipartite.Frame{Degree: x.blocks, Left: &f.outs.Side, Right: &f.ins.Side}
	f.makeBins()
	f.connect()
	n := f.graph.Even()
	match := make([]int32, n*int(x.blocks))
	if err := f.graph.Colour(ctx, &bipartite.Colourer{Workers: x.workers}, match); err != nil {
		return nil, err
	}
	return f.read(n, match), nil
}

// makeBins makes the bins of both sides, which are the same but for dummies.
func (f *frame) makeBins() {
	lanes, planes := f.Lanes(), f.Planes()
	for _, b := range []*bins{&f.outs, &f.ins} {
		b.at = make([]int32, f.Pods*lanes)
		for p := range f.Pods {
			for j := range planes {
				for k := f.First[j]; k < f.First[j+1]; k++ {
					b.at[p*lanes+k] = -1
					if f.laneUp(p, k) {
						b.at[p*lanes+k] = b.add(int32(p), int32(k), int32(j), f.blocks)
					}
				}
				for range f.alive[p*planes+j] - f.tops[p*planes+j] {
					b.add(int32(p), -1, int32(j), f.blocks)
				}
			}
		}
	}
}

// connect makes the arcs of the units, and of the dummies. It takes the room of the bins.
func (f *frame) connect() {
	lanes, planes := f.Lanes(), f.Planes()
	for p := range f.Pods {
		for q := range f.Pods {
			for k, count := range f.z[(p*f.Pods+q)*lanes:][:lanes] {
				if count > 0 {
					f.graph.Join(f.outs.at[p*lanes+k], f.ins.at[q*lanes+k], count)
				}
			}
		}
	}
	for p, first := 0, 0; p < f.Pods; p++ {
		end := first
		for end < len(f.ins.Of) && int(f.ins.Of[end]) == p {
			end++
		}
		var outs, ins []rest
		for at, j := first, 0; j < planes; j++ {
			next := at
			for next < end && int(f.ins.plane[next]) == j {
				next++
			}
			f.stay(at, next, f.own[p*planes+j])
			outs, ins = append(outs, f.idle(at, next, true)), append(ins, f.idle(at, next, false))
			at = next
		}
		f.idleRest(outs, p, true)
		f.idleRest(ins, p, false)
		first = end
	}
}

// stay joins the out-bins of a pod's plane with its in-bins for units within the pod, from
// the last on: loops first.
func (f *frame) stay(first, end int, count int32) {
	for u, v := end-1, end-1; count > 0 && u >= first && v >= first; {
		count -= f.graph.Join(int32(u), int32(v), count)
		if f.outs.Room[u] == 0 {
			u--
		} else {
			v--
		}
	}
}

// rest is the bins of a plane with their remaining room: less than the blocks.
type rest struct {
	first, end int
	held       int32 // bins that dummies keep idle in every block
	room       int32
}

// idle joins the bins of a plane with dummies of their own, as many as they can fill.
func (f *frame) idle(first, end int, out bool) rest {
	r := rest{first: first, end: end}
	room := f.roomOf(out)
	for v := first; v < end; v++ {
		r.room += room[v]
	}
	for ; r.room >= f.blocks; r.room -= f.blocks {
		f.hold(first, end, f.dummy(out), f.blocks, out)
		r.held++
	}
	return r
}

func (f *frame) roomOf(out bool) []int32 {
	if out {
		return f.outs.Room
	}
	return f.ins.Room
}

// dummy adds a dummy for bins, which is on the other side.
func (f *frame) dummy(out bool) int32 {
	if out {
		return f.graph.Dummy(f.graph.Right)
	}
	return f.graph.Dummy(f.graph.Left)
}

// idleRest joins the remaining bins of a pod with dummies: a dummy for each plane or, if
// the pod's groups may not send, or its servers not receive, that much in a block, dummies
// that planes share.
func (f *frame) idleRest(planes []rest, pod int, out bool) {
	busy, most := int32(0), int32(0) // in a block
	for _, r := range planes {
		busy += int32(r.end-r.first) - r.held
	}
	for _, c := range f.ofPod[pod] {
		if cell := &f.cells[c]; out {
			most += cell.size() * cell.s * f.group
		} else {
			most += cell.size() * cell.n
		}
	}
	shared, left := int32(-1), int32(0)
	for _, r := range planes {
		for r.room > 0 {
			if shared < 0 || left == 0 || busy <= most {
				shared, left = f.dummy(out), f.blocks
			}
			n := min(r.room, left)
			f.hold(r.first, r.end, shared, n, out)
			r.room, left = r.room-n, left-n
		}
	}
}

// hold joins bins, from the last on, with a dummy.
func (f *frame) hold(first, end int, dummy, count int32, out bool) {
	for v := end - 1; v >= first && count > 0; v-- {
		if out {
			count -= f.graph.Join(int32(v), dummy, count)
		} else {
			count -= f.graph.Join(dummy, int32(v), count)
		}
	}
}

// read makes units of the matched bins. Of the edges between two bins as many are units as
// the division has left there; the others idle.
func (f *frame) read(n int, match []int32) *units {
	zLeft, ownLeft := slices.Clone(f.z), slices.Clone(f.own)
	lanes, planes := f.Lanes(), f.Planes()
	total := 0
	for _, c := range f.z {
		total += int(c)
	}
	for _, c := range f.own {
		total += int(c)
	}
	u := &units{block: make([]int32, 0, total), way: make([]int16, 0, total), p: make([]int16, 0, total), q: make([]int16, 0, total)}
	for block := range f.blocks {
		for a, b := range match[int(block)*n:][:n] {
			p, q := f.outs.Of[a], f.ins.Of[b]
			if p < 0 || q < 0 {
				continue
			}
			if p == q {
				if left := &ownLeft[int(p)*planes+int(f.outs.plane[a])]; f.outs.plane[a] == f.ins.plane[b] && *left > 0 {
					*left--
					u.add(block, int16(lanes+int(f.outs.plane[a])), int16(p), int16(q))
				}
				continue
			}
			k := f.outs.lane[a]
			if k < 0 || k != f.ins.lane[b] {
				continue
			}
			if left := &zLeft[(int(p)*f.Pods+int(q))*lanes+int(k)]; *left > 0 {
				*left--
				u.add(block, int16(k), int16(p), int16(q))
			}
		}
	}
	return u
}
