package pods

import "fmt"

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

func (w *seater) extract(pod int, cells []int32, in, strict bool) error {
	c := &w.cells[cells[0]]
	planes := int32(w.Planes())
	rows := w.blocks * planes
	keys := w.keys(in, strict)
	limit := func(c *cell) int32 { // of a leaf in a block
		if in {
			return min(c.planes, c.n)
		}
		return min(c.planes, c.s*w.group)
	}
	rest := make([]int32, planes) // what the other cells take of a plane
	restAll, byBlock := int32(0), c.tight(w.group)
	for _, i := range cells[1:] {
		o := &w.cells[i]
		for j, up := range o.up {
			if up {
				rest[j] += o.size()
			}
		}
		restAll += o.size() * limit(o)
		byBlock = byBlock || o.tight(w.group)
	}
	w.count = grow(w.count, int(rows+w.blocks))
	clear(w.count)
	for _, u := range w.order {
		w.count[w.u.block[u]*planes+w.plane(u)]++
		w.count[rows+w.u.block[u]]++
	}
	f := &w.flow
	f.reset(int(keys + rows + w.blocks + 1))
	sink := keys + rows + w.blocks
	w.want = grow(w.want, int(keys))
	for k := range keys {
		if w.want[k] = w.wanted(cells[0], k, in, strict); w.want[k] > 0 {
			f.arc(sink, k, w.want[k], w.want[k])
		}
	}
	w.arcOf = grow(w.arcOf, len(w.order))
	for i, u := range w.order {
		w.arcOf[i] = -1
		if j := w.plane(u); c.up[j] && w.want[w.key(u, in, strict)] > 0 {
			w.arcOf[i] = f.arc(w.key(u, in, strict), keys+w.u.block[u]*planes+j, 0, 1)
		}
	}
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
			return fmt.Errorf("%w: pod %d has %d units on a plane of a block", errSeats, pod, count)
		}
		to := sink
		if byBlock {
			to = keys + rows + r/planes
		}
		f.arc(keys+r, to, least, most)
	}
	if byBlock {
		for b := range w.blocks {
			least, most := max(0, w.count[rows+b]-restAll), c.size()*limit(c)
			if least > most {
				return fmt.Errorf("%w: pod %d has %d units in a block", errSeats, pod, w.count[rows+b])
			}
			f.arc(keys+rows+b, sink, least, most)
		}
	}
	if !f.circulate() {
		return fmt.Errorf("%w: a cell of %d leaves of pod %d", errSeats, c.size(), pod)
	}
	w.takeCarried()
	return nil
}

func (w *seater) takeCarried() {
	f := &w.flow
	w.next = w.next[:0]
	left := w.order[:0]
	for i, u := range w.order {
		if w.arcOf[i] >= 0 && f.carried(w.arcOf[i]) > 0 {
			w.next = append(w.next, u)
		} else {
			left = append(left, u)
		}
	}
	w.order = left
}

func (w *seater) extractSome(cell int32, in bool) {
	c := &w.cells[cell]
	planes := int32(w.Planes())
	rows, keys := w.blocks*planes, w.keys(in, false)
	limit := min(c.planes, c.n)
	if !in {
		limit = min(c.planes, c.s*w.group)
	}
	f := &w.flow
	f.reset(int(keys + rows + w.blocks))
	s, t := keys+rows+w.blocks, keys+rows+w.blocks+1
	w.want = grow(w.want, int(keys))
	for k := range keys {
		if w.want[k] = w.wanted(cell, k, in, false); w.want[k] > 0 {
			f.arc(s, k, 0, w.want[k])
		}
	}
	w.arcOf = grow(w.arcOf, len(w.order))
	for i, u := range w.order {
		w.arcOf[i] = -1
		if j := w.plane(u); c.up[j] && w.want[w.key(u, in, false)] > 0 {
			w.arcOf[i] = f.arc(w.key(u, in, false), keys+w.u.block[u]*planes+j, 0, 1)
		}
	}
	for r := range rows {
		f.arc(keys+r, keys+rows+r/planes, 0, c.size())
	}
	for b := range w.blocks {
		f.arc(keys+rows+b, t, 0, c.size()*limit)
	}
	for f.rank(s, t) {
		f.at = append(f.at[:0], f.head...)
		for pushed := f.push(s, t, 1<<30); pushed > 0; {
			pushed = f.push(s, t, 1<<30)
		}
	}
	w.takeCarried()
}
