package podplan

import "slices"

// patience is how many moves relieve makes without less excess than ever, and keepOff for how
// many a unit may not come back to a way.
const (
	patience = 32
	keepOff  = 16

	mostCables = 4 // of a way
)

// relieve moves ways off cables that carry more than a fair share, few of them those of the
// whole tree, at most left (a tabu search): always one of the fullest cable goes where it costs least. It is
// false, and moves none, if that does not relieve all.
func (w *baseWays) relieve(left int) bool {
	total, units := int64(0), int64(0)
	for _, n := range w.load {
		over := int64(max(0, n-w.fair))
		total += over * over
		units += over
	}
	if units > mostCables*int64(left+w.moved()) {
		return false // those that may move are too few
	}
	if w.steps == nil {
		w.steps = make([][]int32, len(w.load))
		for at, way := range w.way {
			if way >= 0 && way != w.whole[at] {
				w.pass(at/w.n, at%w.n, way, 1)
			}
		}
	}
	barred, made := map[[2]int]int{}, []move{}
	least, until := total, patience
	for step := 0; total > 0 && step < until; step++ {
		next := move{way: -1}
		w.users(w.fullest(), func(a, d int) {
			at := a*w.n + d
			was := w.way[at]
			if was == w.whole[at] && left == 0 {
				return
			}
			w.use(a, d, was, -1)
			than, less, more := next, w.excess(a, d, was), 0
			if was == w.whole[at] {
				more = 1
			}
			than.excess, than.blocks = than.excess+less, than.blocks-more
			m := w.best(a, d, than, func(way int16) bool {
				return way == was || w.laned && w.planeOf(way) == w.planeOf(w.whole[at]) || barred[[2]int{at, int(way)}] > step
			})
			m.excess, m.blocks = m.excess-less, m.blocks+more
			if w.use(a, d, was, 1); m.before(next) {
				next = m
			}
		})
		if next.way < 0 {
			break
		}
		was := move{at: next.at, way: w.way[next.at]}
		made, barred[[2]int{was.at, int(was.way)}] = append(made, was), step+keepOff
		left += w.change(next)
		if total += next.excess; total < least {
			least, until = total, step+patience
		}
	}
	if total == 0 {
		return true
	}
	for _, m := range slices.Backward(made) {
		w.change(m)
	}
	return false
}

// pass notes in which steps a unit that has moved passes cables, or with −1 that it does not.
func (w *baseWays) pass(a, d int, way int16, uses int16) {
	step := int32(d) - w.Plan.Base[a]
	of, n := w.cablesOf(a, int(w.home(int32(d))), way)
	for _, i := range of[:n] {
		if uses > 0 {
			w.steps[i] = append(w.steps[i], step)
		} else {
			at := slices.Index(w.steps[i], step)
			w.steps[i] = slices.Delete(w.steps[i], at, at+1)
		}
	}
}

// change gives a unit another way, and tells by how many there are more of the whole tree.
func (w *baseWays) change(m move) (more int) {
	a, d := m.at/w.n, m.at%w.n
	if w.way[m.at] == w.whole[m.at] {
		more--
	}
	w.use(a, d, w.way[m.at], -1)
	if w.use(a, d, m.way, 1); m.way == w.whole[m.at] {
		more++
	}
	return more
}

// fullest returns the cable that carries most.
func (w *baseWays) fullest() (at int) {
	for i, n := range w.load {
		if n > w.load[at] {
			at = i
		}
	}
	return at
}

// users calls for the units that pass a cable, as cablesOf numbers them.
func (w *baseWays) users(cable int, unit func(a, d int)) {
	leaves, planes, lanes := w.shape.Leaves, w.Tree.Planes, len(w.Tree.Lanes)
	passes := make([]bool, lanes+planes)                             // [way]
	side, at := cable/(len(leaves)*planes), cable/planes%len(leaves) // it leaves leaves, or enters them
	if lane := cable - 2*len(leaves)*planes; lane >= 0 {
		side, at = 2+lane/(w.Tree.Pods*lanes), lane/lanes%w.Tree.Pods // it leaves pods, or enters them
		passes[lane%lanes] = true
	}
	for way := range passes {
		passes[way] = passes[way] || side < 2 && w.planeOf(int16(way)) == cable%planes
	}
	for a := range leaves {
		if side == 0 && a != at || side == 2 && leaves[a].Pod != at {
			continue
		}
		for b := range leaves {
			if side == 1 && b != at || side == 3 && leaves[b].Pod != at {
				continue
			}
			for d := int(w.Plan.Base[b]); d < int(w.Plan.Base[b+1]); d++ {
				if way := w.way[a*w.n+d]; way >= 0 && passes[way] {
					unit(a, d)
				}
			}
		}
	}
}
