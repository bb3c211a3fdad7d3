package pods

import "fmt"

// key numbers what a leaf must have a certain number of units with: servers that receive,
// or their leaves, or pods whose groups send, by plane where the division is kept to.
func (w *seater) key(u int32, in, strict bool) int32 {
	switch {
	case strict:
		return int32(w.u.p[u])*int32(w.Planes()) + w.plane(u)
	case in:
		return int32(w.u.p[u])
	case w.sourcesFirst:
		return w.u.dst[u]
	}
	return w.u.to[u]
}

// keys returns how many keys there are.
func (w *seater) keys(in, strict bool) int32 {
	switch {
	case strict:
		return int32(w.Pods * w.Planes())
	case in:
		return int32(w.Pods)
	case w.sourcesFirst:
		return int32(len(w.Leaves))
	}
	return int32(len(w.homeOf))
}

// wanted returns how many units a cell must have with a key.
func (w *seater) wanted(c, key int32, in, strict bool) int32 {
	if strict {
		total, planes, cells := int32(0), int32(w.Planes()), int32(len(w.cells))
		for _, d := range w.ofPod[key/planes] {
			total += w.d.y[(d*cells+c)*planes+key%planes]
		}
		return total
	}
	if !in {
		each, leaf := w.cells[c].size()*w.cells[c].s, key
		if w.sourcesFirst {
			each *= int32(len(w.Leaves[leaf].Slots))
		} else {
			leaf = w.homeOf[key]
		}
		if w.units(c, w.cellOf[leaf]) == 0 {
			return 0
		}
		return each
	}
	total := int32(0)
	for _, d := range w.ofPod[key] {
		total += w.units(d, c)
	}
	return total
}

// extract takes the units of a cell out of order, to next: as many of each key as it wants. The
// others must be able to take what is left.
func (w *seater) extract(c *cell, others []*cell, in, strict bool, want func(key int32) int32) error {
	planes := int32(w.Planes())
	rows := w.blocks * planes
	keys := w.keys(in, strict)
	rest := make([]int32, planes) // units of a plane for the other cells
	restAll, byBlock := int32(0), c.tight(w.group)
	for _, o := range others {
		for j, up := range o.up {
			if up {
				rest[j] += o.size()
			}
		}
		restAll += o.size() * w.most(o, in)
		byBlock = byBlock || o.tight(w.group)
	}
	w.count = grow(w.count, int(rows+w.blocks))
	clear(w.count)
	for _, u := range w.order {
		w.count[w.u.block[u]*planes+w.plane(u)]++
		w.count[rows+w.u.block[u]]++
	}
	f := &w.flow
	f.Reset(int(keys + rows + w.blocks + 1))
	sink := keys + rows + w.blocks
	w.offer(c, in, strict, want, sink)
	for r := range rows {
		count, j := w.count[r], r%planes
		if count == 0 {
			continue
		}
		most := int32(0)
		if c.up[j] {
			most = c.size()
		}
		least := max(0, count-rest[j])
		if least > most {
			return fmt.Errorf("%w: pod %d has %d units on a plane of a block", errSeats, c.pod, count)
		}
		to := sink
		if byBlock {
			to = keys + rows + r/planes
		}
		f.Arc(keys+r, to, int(least), int(most))
	}
	if byBlock {
		for b := range w.blocks {
			least, most := max(0, w.count[rows+b]-restAll), c.size()*w.most(c, in)
			if least > most {
				return fmt.Errorf("%w: pod %d has %d units in a block", errSeats, c.pod, w.count[rows+b])
			}
			f.Arc(keys+rows+b, sink, int(least), int(most))
		}
	}
	if !f.Circulate() {
		return fmt.Errorf("%w: a cell of %d leaves of pod %d", errSeats, c.size(), c.pod)
	}
	w.takeCarried()
	return nil
}

// most returns how many units a leaf of a cell can have in a block.
func (w *seater) most(c *cell, in bool) int32 {
	if in {
		return min(c.planes, c.n)
	}
	return min(c.planes, c.s*w.group)
}

// offer makes the arcs to the units in order that a cell may have: from the source to the
// keys, as much as it wants of each; and from a key to the plane of the unit's block.
func (w *seater) offer(c *cell, in, strict bool, want func(key int32) int32, source int32) {
	f, keys, planes := &w.flow, w.keys(in, strict), int32(w.Planes())
	w.want = grow(w.want, int(keys))
	for k := range keys {
		if w.want[k] = want(k); w.want[k] > 0 {
			f.Arc(source, k, int(w.want[k]), int(w.want[k]))
		}
	}
	w.arcs = grow(w.arcs, len(w.order))
	for i, u := range w.order {
		w.arcs[i] = -1
		if j := w.plane(u); c.up[j] && w.want[w.key(u, in, strict)] > 0 {
			w.arcs[i] = f.Arc(w.key(u, in, strict), keys+w.u.block[u]*planes+j, 0, 1)
		}
	}
}

// takeCarried takes the units whose arcs carry something out of order, to next.
func (w *seater) takeCarried() {
	f := &w.flow
	w.next = w.next[:0]
	left := w.order[:0]
	for i, u := range w.order {
		if w.arcs[i] >= 0 && f.Carried(w.arcs[i]) > 0 {
			w.next = append(w.next, u)
		} else {
			left = append(left, u)
		}
	}
	w.order = left
}
