package ilp

import (
	"math/bits"

	"github.com/forsd/forsd/fors"
)

// exhaustive decides whether a phase has a routing by trying every lane of every
// transfer, those with the fewest lanes first. It supports up to 64 lanes, and shares no
// code with the package.
type exhaustive struct {
	leaf   []int
	pairs  []fors.Pair
	lanes  []uint64 // [transfer] usable at all
	out    []uint64 // [leaf] lanes free
	in     []uint64 // [leaf] lanes free
	routed []bool   // [transfer]
	nodes  int      // visited
}

func feasible(t *fors.Tree, pairs []fors.Pair) (yes bool, nodes int) {
	x := &exhaustive{leaf: leafOf(t), pairs: pairs, routed: make([]bool, len(pairs))}
	for range t.Slots {
		x.out, x.in = append(x.out, 1<<t.Lanes-1), append(x.in, 1<<t.Lanes-1)
	}
	for _, pair := range pairs {
		set := uint64(0)
		for k := range t.Lanes {
			if t.Up[x.leaf[pair.Src]][k] && t.Up[x.leaf[pair.Dst]][k] && (t.Closed == nil || !t.Closed(pair.Dst, fors.Lane(k))) {
				set |= 1 << k
			}
		}
		x.lanes = append(x.lanes, set)
	}
	yes = x.search()
	return yes, x.nodes
}

func (x *exhaustive) free(i int) uint64 {
	return x.lanes[i] & x.out[x.leaf[x.pairs[i].Src]] & x.in[x.leaf[x.pairs[i].Dst]]
}

func (x *exhaustive) search() bool {
	x.nodes++
	next, fewest := -1, 65
	for i, routed := range x.routed {
		if !routed {
			if n := bits.OnesCount64(x.free(i)); n < fewest {
				next, fewest = i, n
			}
		}
	}
	if next < 0 {
		return true
	}
	A, B := x.leaf[x.pairs[next].Src], x.leaf[x.pairs[next].Dst]
	x.routed[next] = true
	for set := x.free(next); set != 0; set &= set - 1 {
		lane := set & -set
		x.out[A], x.in[B] = x.out[A]&^lane, x.in[B]&^lane
		found := x.search()
		x.out[A], x.in[B] = x.out[A]|lane, x.in[B]|lane
		if found {
			return true
		}
	}
	x.routed[next] = false
	return false
}
