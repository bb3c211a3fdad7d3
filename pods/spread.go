package pods

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
)

const (
	// levelRounds is how often every demand is levelled over its ways.
	levelRounds = 60
	// chaseWork is how many ways all searches of a spread may look at.
	chaseWork = 1 << 24
	// shakeWork is how many ways forced moves may look at.
	shakeWork = 1 << 16
	// mostUses is how many resources a way may use.
	mostUses = 4
)

// spread divides demands over ways, so that no resource carries more than it has room
// for. A demand is what one place sends to another, a way a plane or a lane, a resource a
// directed cable, or several of one kind.
type spread struct {
	room  []int32 // [resource]
	load  []int32 // [resource]
	need  []int32 // [demand]
	first []int32 // [demand] its first way; one more at the end
	uses  []int32 // [way·mostUses…] resources, −1 if none
	y     []int32 // [way] units

	excess int64 // Σ max(0, load − room)
	of     []int32
	users  []int32 // ways by resource
	begin  []int32 // [resource] its first user; one more at the end
	work   int
	from   []hop // [resource] how a search came to it
	queue  []int32
}

// hop moves a unit from one way to another, after the resource before.
type hop struct{ before, from, to int32 }

// demand begins a demand.
func (s *spread) demand(need int32) {
	s.need = append(s.need, need)
	s.first = append(s.first, int32(len(s.uses)/mostUses))
}

// way adds a way to the last demand.
func (s *spread) way(uses ...int32) {
	for i := range mostUses {
		if i < len(uses) {
			s.uses = append(s.uses, uses[i])
		} else {
			s.uses = append(s.uses, -1)
		}
	}
}

// ways lists the ways of a demand.
func (s *spread) ways(i int32) (first, end int32) { return s.first[i], s.first[i+1] }

// solve divides the demands, and reports whether it succeeded.
func (s *spread) solve(ctx context.Context) bool {
	s.first = append(s.first, int32(len(s.uses)/mostUses))
	s.y = make([]int32, len(s.uses)/mostUses)
	s.load = make([]int32, len(s.room))
	order := make([]int32, len(s.need))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Compare(s.first[a+1]-s.first[a], s.first[b+1]-s.first[b])
	})
	for _, i := range order {
		if !s.pour(i) {
			return false
		}
	}
	for round := 0; round < levelRounds && s.excess > 0 && ctx.Err() == nil; round++ {
		moved := false
		for _, i := range order {
			moved = s.level(i) || moved
		}
		if !moved {
			break
		}
	}
	return s.excess == 0 || s.relieve(ctx) || s.shake(ctx)
}

// pour divides a demand by the room of the ways, and the remainder over the ways with the
// least load.
func (s *spread) pour(i int32) bool {
	first, end := s.ways(i)
	if first == end {
		return s.need[i] == 0
	}
	total := int64(0)
	for w := first; w < end; w++ {
		total += s.width(w)
	}
	rest := s.need[i]
	for w := first; w < end && total > 0; w++ {
		x := int32(int64(s.need[i]) * s.width(w) / total)
		s.add(w, x)
		rest -= x
	}
	for ; rest > 0; rest-- {
		best, least := first, 0.0
		for w := first; w < end; w++ {
			if p := s.fullness(w); w == first || p < least-1e-9 {
				best, least = w, p
			}
		}
		s.add(best, 1)
	}
	return true
}

// width returns the least room of a way's resources.
func (s *spread) width(w int32) int64 {
	width := int64(1) << 30
	for _, r := range s.uses[w*mostUses:][:mostUses] {
		if r >= 0 {
			width = min(width, int64(s.room[r]))
		}
	}
	return width
}

// fullness returns the sum of the shares of their room that a way's resources have used.
func (s *spread) fullness(w int32) float64 {
	sum := 0.0
	for _, r := range s.uses[w*mostUses:][:mostUses] {
		if r >= 0 {
			sum += power(float64(s.load[r]) / float64(max(1, s.room[r])))
		}
	}
	return sum
}

// power weighs the share of its room that a resource has used: steeply.
func power(x float64) float64 {
	x *= x
	x *= x
	x *= x
	return x * x
}

// add changes the load of a way.
func (s *spread) add(w, units int32) {
	s.y[w] += units
	for _, r := range s.uses[w*mostUses:][:mostUses] {
		if r >= 0 {
			s.excess -= int64(max(0, s.load[r]-s.room[r]))
			s.load[r] += units
			s.excess += int64(max(0, s.load[r]-s.room[r]))
		}
	}
}

// level moves units of a demand from its fullest way to its emptiest, while that pays.
func (s *spread) level(i int32) (moved bool) {
	first, end := s.ways(i)
	for range 2 * (end - first) {
		full, empty := int32(-1), int32(-1)
		most, least := 0.0, 0.0
		for w := first; w < end; w++ {
			p := s.fullness(w)
			if s.y[w] > 0 && (full < 0 || p > most) {
				full, most = w, p
			}
			if empty < 0 || p < least {
				empty, least = w, p
			}
		}
		if full < 0 || most <= least {
			return moved
		}
		units := max(1, s.y[full]/16)
		for ; units > 0; units /= 2 {
			s.add(full, -units)
			s.add(empty, units)
			if s.fullness(full) >= s.fullness(empty) || units == 1 && s.fullness(empty) < most {
				break
			}
			s.add(full, units)
			s.add(empty, -units)
		}
		if units == 0 {
			return moved
		}
		moved = true
	}
	return moved
}

// index lists the ways by resource.
func (s *spread) index() {
	s.begin = make([]int32, len(s.room)+1)
	for _, r := range s.uses {
		if r >= 0 {
			s.begin[r+1]++
		}
	}
	for r := range s.room {
		s.begin[r+1] += s.begin[r]
	}
	at := slices.Clone(s.begin)
	s.users = make([]int32, s.begin[len(s.room)])
	s.of = make([]int32, len(s.y))
	for i := range s.need {
		first, end := s.ways(int32(i))
		for w := first; w < end; w++ {
			s.of[w] = int32(i)
			for _, r := range s.uses[w*mostUses:][:mostUses] {
				if r >= 0 {
					s.users[at[r]] = w
					at[r]++
				}
			}
		}
	}
}

// relieve passes excess on from resource to resource until none is left.
func (s *spread) relieve(ctx context.Context) bool {
	s.index()
	s.from = make([]hop, len(s.room)+1)
	s.work = chaseWork
	for again := true; again && s.excess > 0; {
		again = false
		for r := range s.room {
			for s.load[r] > s.room[r] && s.work > 0 && ctx.Err() == nil && s.chase(int32(r)) {
				again = true
			}
		}
	}
	return s.excess == 0
}

// chase looks, breadth first, for a chain of moves of which each relieves the resource
// that the one before has overloaded, and the last overloads none.
func (s *spread) chase(root int32) bool {
	for i := range s.from {
		s.from[i].before = -2
	}
	s.from[root] = hop{before: -1}
	s.queue = append(s.queue[:0], root)
	last := int32(len(s.room))
	for x := 0; x < len(s.queue); x++ {
		r := s.queue[x]
		for _, w := range s.users[s.begin[r]:s.begin[r+1]] {
			if s.y[w] == 0 {
				continue
			}
			first, end := s.ways(s.of[w])
			s.work -= int(end - first)
			for v := first; v < end; v++ {
				if v == w {
					continue
				}
				full, fits := s.overloads(w, v, r)
				if !fits || full >= 0 && s.from[full].before != -2 {
					continue
				}
				if full >= 0 {
					s.from[full] = hop{r, w, v}
					s.queue = append(s.queue, full)
					continue
				}
				if s.from[last] = (hop{r, w, v}); s.apply(last) {
					return true
				}
			}
		}
		if s.work < 0 {
			return false
		}
	}
	return false
}

// shake forces moves where no chain is left: of a resource that has too many units, one goes
// to the way on which there is the least excess then, and may not come back at once.
func (s *spread) shake(ctx context.Context) bool {
	rng := rand.New(rand.NewPCG(uint64(len(s.y)), uint64(len(s.room))))
	until := make([]int32, len(s.y)) // [way] the move before which no unit may come back to it
	var over []int32
	for work, move := shakeWork, int32(1); s.excess > 0 && work > 0 && ctx.Err() == nil; move++ {
		over = over[:0]
		for r := range s.room {
			if s.load[r] > s.room[r] {
				over = append(over, int32(r))
			}
		}
		r := over[rng.IntN(len(over))]
		users := s.users[s.begin[r]:s.begin[r+1]]
		from, to, least, ties := int32(-1), int32(-1), int64(0), 0
		for _, w := range users {
			if s.y[w] == 0 {
				continue
			}
			s.add(w, -1)
			first, end := s.ways(s.of[w])
			work -= int(end - first)
			for v := first; v < end; v++ {
				if v == w || until[v] > move {
					continue
				}
				s.add(v, 1)
				if x := s.excess; ties == 0 || x < least {
					from, to, least, ties = w, v, x, 1
				} else if x == least {
					if ties++; rng.IntN(ties) == 0 {
						from, to = w, v
					}
				}
				s.add(v, -1)
			}
			s.add(w, 1)
		}
		work -= len(s.room)/8 + 1
		if ties == 0 {
			continue
		}
		s.add(from, -1)
		s.add(to, 1)
		until[from] = move + 5 + rng.Int32N(10)
	}
	return s.excess == 0
}

// overloads returns the resource that a move from way w to way v would overload, −1 if
// none; fits is false if there would be two, or if v uses the resource to be relieved.
func (s *spread) overloads(w, v, relieved int32) (full int32, fits bool) {
	full = -1
	old := s.uses[w*mostUses:][:mostUses]
	for _, r := range s.uses[v*mostUses:][:mostUses] {
		if r < 0 || s.load[r] < s.room[r] && r != relieved {
			continue
		}
		if r == relieved {
			return -1, false
		}
		if slices.Contains(old, r) {
			continue
		}
		if full >= 0 {
			return -1, false
		}
		full = r
	}
	return full, true
}

// apply makes the moves that led to a state, if each finds its unit and the excess
// lessens.
func (s *spread) apply(state int32) bool {
	var path []hop
	for h := s.from[state]; ; h = s.from[h.before] {
		if h.before < 0 {
			break
		}
		path = append(path, h)
	}
	before, made := s.excess, 0
	for _, h := range path {
		if s.y[h.from] == 0 {
			break
		}
		s.add(h.from, -1)
		s.add(h.to, 1)
		made++
	}
	if made == len(path) && s.excess < before {
		return true
	}
	for made--; made >= 0; made-- {
		s.add(path[made].from, 1)
		s.add(path[made].to, -1)
	}
	return false
}
