package ilp

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/forsd/forsd/fors"
)

// laneMatcher routes a phase lane by lane, each by a matching of sending and receiving
// leaves, and the lanes that are open to every group together. The lanes that are open
// to the fewest groups come first; a matching prefers the ends and the groups with the
// fewest spare lanes. It routes most phases, and proves nothing if it fails.
type laneMatcher struct {
	ph      *phase
	rng     *rand.Rand    // perturbs the weights, unless nil
	byGroup [][]fors.Lane // [group] assigned lanes
	used    fors.LaneSet  // lanes that have been matched

	left []int // [group] transfers without a lane
	todo []int // [end] transfers without a lane
	room []int // [end] remaining lanes that are open to one of its groups
	ways []int // [group] remaining lanes that are open to it

	pick   []int       // [from·leaves+to] the group to take, or −1
	weight [][]float64 // [from][to]
}

// matchLanes matches the given number of lanes, or all of them. It stops with ok false
// if a matching leaves an end with more transfers than lanes, or if ctx ends; done is
// the number of matchings before that. With rng the weights vary.
func (ph *phase) matchLanes(ctx context.Context, most int, rng *rand.Rand) (s *laneMatcher, done int, ok bool) {
	s = newLaneMatcher(ph)
	s.rng = rng
	for _, c := range s.order() {
		if c.all && most >= ph.lanes {
			return s, done, ph.expand(c, func(g int) int { return s.left[g] }, s.byGroup)
		}
		for _, k := range c.lanes {
			if done == most {
				return s, done, true
			}
			if ctx.Err() != nil || !s.match(c, k) {
				return s, done, false
			}
			done++
		}
	}
	return s, done, true
}

// core returns the remaining phase: the transfers without a lane and the remaining
// lanes.
func (s *laneMatcher) core() *phase {
	core := &phase{leaves: s.ph.leaves, lanes: s.ph.lanes, ends: s.ph.ends, groups: slices.Clone(s.ph.groups)}
	for g := range core.groups {
		gr := &core.groups[g]
		gr.transfers, gr.lanes = gr.transfers[:s.left[g]], slices.Clone(gr.lanes)
		for i := range gr.lanes {
			gr.lanes[i] &^= s.used[i]
		}
	}
	core.classify()
	return core
}

func newLaneMatcher(ph *phase) *laneMatcher {
	s := &laneMatcher{ph: ph, byGroup: make([][]fors.Lane, len(ph.groups)), used: fors.NewLaneSet(ph.lanes), left: make([]int, len(ph.groups)), ways: make([]int, len(ph.groups)),
		todo: make([]int, 2*ph.leaves), room: make([]int, 2*ph.leaves),
		pick: make([]int, ph.leaves*ph.leaves), weight: make([][]float64, ph.leaves)}
	for from := range s.weight {
		s.weight[from] = make([]float64, ph.leaves)
	}
	for g := range ph.groups {
		s.left[g] = len(ph.groups[g].transfers)
		s.ways[g] = ph.groups[g].lanes.Size()
	}
	for end := range s.todo {
		s.todo[end] = ph.degree(end)
		for _, c := range ph.classes {
			if ph.serves(c, end) {
				s.room[end] += len(c.lanes)
			}
		}
	}
	return s
}

// serves reports whether a class is open to a group at an end.
func (ph *phase) serves(c class, end int) bool {
	return slices.ContainsFunc(ph.ends[end], func(g int) bool { return c.open[g] })
}

// order lists the classes, those open to the fewest groups first.
func (s *laneMatcher) order() []class {
	groups := func(c class) int {
		n := 0
		for _, open := range c.open {
			if open {
				n++
			}
		}
		return n
	}
	order := slices.Clone(s.ph.classes)
	slices.SortStableFunc(order, func(a, b class) int { return cmp.Compare(groups(a), groups(b)) })
	return order
}

// match gives a lane to a matching of the remaining transfers. It reports false if an
// end or a group then has more transfers than remaining lanes.
func (s *laneMatcher) match(c class, k fors.Lane) bool {
	s.used.Add(int(k))
	s.weigh(c)
	for from, to := range assign(s.weight) {
		if g := s.pick[from*s.ph.leaves+to]; g >= 0 {
			s.byGroup[g] = append(s.byGroup[g], k)
			s.left[g]--
			s.todo[from]--
			s.todo[s.ph.leaves+to]--
		}
	}
	for end := range s.room {
		if s.ph.serves(c, end) {
			s.room[end]--
		}
		if s.todo[end] > s.room[end] {
			return false
		}
	}
	for g, open := range c.open {
		if open {
			s.ways[g]--
		}
		if s.left[g] > s.ways[g] {
			return false
		}
	}
	return true
}

// weigh fills pick and weight for the lanes of a class.
func (s *laneMatcher) weigh(c class) {
	for i := range s.pick {
		s.pick[i] = -1
	}
	for from := range s.weight {
		clear(s.weight[from])
	}
	for g, n := range s.left {
		if n == 0 || !c.open[g] {
			continue
		}
		from, to := s.ph.groups[g].from, s.ph.groups[g].to
		urgency := 1 + urgent(s.room[from]-s.todo[from]) + urgent(s.room[s.ph.leaves+to]-s.todo[s.ph.leaves+to]) + urgent(s.ways[g]-n)
		if s.rng != nil {
			urgency *= 1 + 4*s.rng.Float64()
		}
		if at := from*s.ph.leaves + to; s.pick[at] < 0 || urgency > s.weight[from][to] {
			s.pick[at], s.weight[from][to] = g, urgency
		}
	}
}

// urgent is the weight of an end or a group with a number of spare lanes: one without
// spare lanes outweighs a matching of all ends that have some.
func urgent(spare int) float64 { return math.Ldexp(1, 24-6*min(spare, 4)) }

// assign returns the column of each row in an assignment of largest weight of a
// square matrix, by the Hungarian method.
func assign(weight [][]float64) []int {
	n := len(weight)
	row := make([]int, n+1) // [column] its row, from 1; column 0 has the current row
	u, v := make([]float64, n+1), make([]float64, n+1)
	least, from, seen := make([]float64, n+1), make([]int, n+1), make([]bool, n+1)
	for i := 1; i <= n; i++ {
		row[0] = i
		for j := range least {
			least[j], seen[j] = math.Inf(1), false
		}
		j := 0
		for row[j] != 0 {
			seen[j] = true
			i, next, step := row[j], 0, math.Inf(1)
			for k := 1; k <= n; k++ {
				if seen[k] {
					continue
				}
				if slack := -weight[i-1][k-1] - u[i] - v[k]; slack < least[k] {
					least[k], from[k] = slack, j
				}
				if least[k] < step {
					step, next = least[k], k
				}
			}
			for k := 0; k <= n; k++ {
				if seen[k] {
					u[row[k]] += step
					v[k] -= step
				} else {
					least[k] -= step
				}
			}
			j = next
		}
		for j != 0 {
			row[j] = row[from[j]]
			j = from[j]
		}
	}
	column := make([]int, n)
	for j := 1; j <= n; j++ {
		column[row[j]-1] = j - 1
	}
	return column
}
