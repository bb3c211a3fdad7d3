package pods

import "fmt"

// split seats the leaves of a cell that have more planes than they may use in a block. An even
// number of leaves is halved, and of an odd number one is seated by a flow.
func (w *seater) split(c *cell, units []int32, in bool) error {
	if len(c.leaves) == 1 {
		count := make([]int32, w.blocks)
		for _, u := range units {
			w.seats(in)[u] = c.leaves[0]
			if count[w.u.block[u]]++; count[w.u.block[u]] > w.most(c, in) {
				return fmt.Errorf("%w: a leaf of pod %d has %d units in a block", errSeats, c.pod, count[w.u.block[u]])
			}
		}
		return nil
	}
	front, rest := *c, *c
	var end int
	if n := len(c.leaves) / 2; len(c.leaves)%2 == 0 {
		front.leaves, rest.leaves = c.leaves[:n], c.leaves[n:]
		end = w.halve(units, in)
	} else {
		front.leaves, rest.leaves = c.leaves[:1], c.leaves[1:]
		wanted := make([]int32, w.keys(in, false))
		for _, u := range units {
			wanted[w.key(u, in, false)]++
		}
		w.order = append(w.order[:0], units...)
		if err := w.extract(&front, []*cell{&rest}, in, false, func(key int32) int32 { return wanted[key] / c.size() }); err != nil {
			return err
		}
		end = copy(units, w.next)
		copy(units[end:], w.order)
	}
	if err := w.split(&front, units[:end], in); err != nil {
		return err
	}
	return w.split(&rest, units[end:], in)
}

// halve moves half of the units to the front, and returns where the others begin: half of those
// of each plane of a block, of each block, of each key on each plane, and of each key, give or
// take one. The units of a plane are paired, those left over of a block, and likewise by keys; a
// unit has then two partners at most, in circles of even length and in paths, along which units
// go to one half and the other in turns.
func (w *seater) halve(units []int32, in bool) (end int) {
	planes := int32(w.Planes())
	w.rowAt, w.keyAt = w.rowAt[:0], w.keyAt[:0]
	for _, u := range units {
		w.rowAt = append(w.rowAt, w.u.block[u]*planes+w.plane(u))
		w.keyAt = append(w.keyAt, w.key(u, in, false)*planes+w.plane(u))
	}
	byRow := w.pair(w.rowAt, w.blocks, planes)
	byKey := w.pair(w.keyAt, w.keys(in, false), planes)
	side := make([]int8, len(units))
	walk := func(at int32, to int8) { // to the partner of the row, and on by its key
		for at >= 0 && side[at] == 0 {
			side[at] = to
			mate := byRow[at]
			if mate < 0 {
				return
			}
			side[mate] = -to
			at = byKey[mate]
		}
	}
	for i := range side {
		walk(int32(i), 1)
		walk(byKey[i], -side[i])
	}
	front, back := make([]int32, 0, len(units)), w.next[:0]
	for i, u := range units {
		if side[i] > 0 {
			front = append(front, u)
		} else {
			back = append(back, u)
		}
	}
	end = copy(units, front)
	copy(units[end:], back)
	w.next = back
	return end
}

// pair pairs what has the same key, and then what is left over of the same of n groups of so many
// keys. It returns the partners, -1 where there is none.
func (w *seater) pair(keys []int32, n, group int32) []int32 {
	mates := make([]int32, len(keys))
	for i := range mates {
		mates[i] = -1
	}
	w.count = grow(w.count, int(n*group))
	for _, each := range []int32{1, group} {
		for i := range w.count {
			w.count[i] = -1
		}
		for i, k := range keys {
			if mates[i] >= 0 {
				continue
			}
			if last := &w.count[k/each]; *last < 0 {
				*last = int32(i)
			} else {
				mates[i], mates[*last] = *last, int32(i)
				*last = -1
			}
		}
	}
	return mates
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
