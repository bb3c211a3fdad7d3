package fors

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
)

const (
	// levelRounds is how often every demand is levelled over its ways.
	levelRounds = 60
	// chaseWork is how many ways the searches for chains may look at.
	chaseWork = 1 << 24
	// shakeWork is how many ways forced moves may look at.
	shakeWork = 1 << 16
)

// Multiflow divides demands over ways, so that no resource carries more than it has room
// for: an integer multicommodity flow by paths. A demand is what one place sends to another,
// a way a plane or a lane, a resource a directed cable, or several of one kind. Demands are
// poured over their ways, and levelled; then chains of moves relieve the resources that carry too
// much, and forced moves where no chain is left (tabu search). It may fail although a flow exists.
type Multiflow struct {
	Room  []int32 // [resource]
	Load  []int32 // [resource]
	Width int     // resources that a way may use
	Y     []int32 // [way] units

	need   []int32 // [demand]
	first  []int32 // [demand] its first way; one more at the end
	uses   []int32 // [way·Width…] resources, −1 if none
	excess int64   // Σ max(0, load − room)
	of     []int32 // [way] its demand
	users  []int32 // ways by resource
	begin  []int32 // [resource] its first user; one more at the end
	work   int
	from   []hop // [resource] how a search came to it
	queue  []int32
}

// hop moves a unit from one way to another, after the resource before.
type hop struct{ before, from, to int32 }

// Demand begins a demand.
func (s *Multiflow) Demand(need int32) {
	s.need = append(s.need, need)
	s.first = append(s.first, int32(len(s.uses)/s.Width))
}

// Way adds a way to the last demand.
func (s *Multiflow) Way(uses ...int32) {
	for i := range s.Width {
		if i < len(uses) {
			s.uses = append(s.uses, uses[i])
		} else {
			s.uses = append(s.uses, -1)
		}
	}
}

// Ways lists the ways of a demand.
func (s *Multiflow) Ways(i int32) (first, end int32) { return s.first[i], s.first[i+1] }

// close ends the last demand.
func (s *Multiflow) close() {
	if s.Y != nil {
		return
	}
	s.first = append(s.first, int32(len(s.uses)/s.Width))
	s.Y = make([]int32, len(s.uses)/s.Width)
	s.Load = make([]int32, len(s.Room))
}

// Resources lists those that a way uses, and −1.
func (s *Multiflow) Resources(w int32) []int32 { return s.uses[int(w)*s.Width:][:s.Width] }

// Solve divides the demands, and reports whether it succeeded.
func (s *Multiflow) Solve(ctx context.Context) bool {
	s.close()
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
	s.work = chaseWork
	return s.relieve(ctx)
}

// relieve moves units until no resource is overloaded, and reports whether it succeeded.
func (s *Multiflow) relieve(ctx context.Context) bool {
	return s.excess == 0 || s.chaseAll(ctx) || s.shake(ctx)
}

// set sets the units of all ways.
func (s *Multiflow) set(y func(way int) int32) {
	clear(s.Y)
	clear(s.Load)
	s.excess = 0
	for w := range s.Y {
		s.Add(int32(w), y(w))
	}
}

// pour divides a demand by the room of the ways, and the remainder over the ways with the
// least load.
func (s *Multiflow) pour(i int32) bool {
	first, end := s.Ways(i)
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
		s.Add(w, x)
		rest -= x
	}
	for ; rest > 0; rest-- {
		best, least := first, 0.0
		for w := first; w < end; w++ {
			if p := s.fullness(w); w == first || p < least-1e-9 {
				best, least = w, p
			}
		}
		s.Add(best, 1)
	}
	return true
}

// level moves units of a demand from its fullest way to its emptiest, while that pays.
func (s *Multiflow) level(i int32) (moved bool) {
	first, end := s.Ways(i)
	for range 2 * (end - first) {
		full, empty := int32(-1), int32(-1)
		most, least := 0.0, 0.0
		for w := first; w < end; w++ {
			p := s.fullness(w)
			if s.Y[w] > 0 && (full < 0 || p > most) {
				full, most = w, p
			}
			if empty < 0 || p < least {
				empty, least = w, p
			}
		}
		if full < 0 || most <= least {
			return moved
		}
		units := max(1, s.Y[full]/16)
		for ; units > 0; units /= 2 {
			s.Add(full, -units)
			s.Add(empty, units)
			if s.fullness(full) >= s.fullness(empty) || units == 1 && s.fullness(empty) < most {
				break
			}
			s.Add(full, units)
			s.Add(empty, -units)
		}
		if units == 0 {
			return moved
		}
		moved = true
	}
	return moved
}

// width returns the least room of a way's resources.
func (s *Multiflow) width(w int32) int64 {
	width := int64(1) << 30
	for _, r := range s.Resources(w) {
		if r >= 0 {
			width = min(width, int64(s.Room[r]))
		}
	}
	return width
}

// fullness returns the sum of the shares of their room that a way's resources have used.
func (s *Multiflow) fullness(w int32) float64 {
	sum := 0.0
	for _, r := range s.Resources(w) {
		if r >= 0 {
			sum += power(float64(s.Load[r]) / float64(max(1, s.Room[r])))
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

// Add changes the load of a way.
func (s *Multiflow) Add(w, units int32) {
	s.Y[w] += units
	for _, r := range s.Resources(w) {
		if r >= 0 {
			s.excess -= int64(max(0, s.Load[r]-s.Room[r]))
			s.Load[r] += units
			s.excess += int64(max(0, s.Load[r]-s.Room[r]))
		}
	}
}

// index lists the ways by resource.
func (s *Multiflow) index() {
	s.begin = make([]int32, len(s.Room)+1)
	for _, r := range s.uses {
		if r >= 0 {
			s.begin[r+1]++
		}
	}
	for r := range s.Room {
		s.begin[r+1] += s.begin[r]
	}
	at := slices.Clone(s.begin)
	s.users = make([]int32, s.begin[len(s.Room)])
	s.of = make([]int32, len(s.Y))
	for i := range s.need {
		first, end := s.Ways(int32(i))
		for w := first; w < end; w++ {
			s.of[w] = int32(i)
			for _, r := range s.Resources(w) {
				if r >= 0 {
					s.users[at[r]] = w
					at[r]++
				}
			}
		}
	}
}

// chaseAll passes excess on from resource to resource until none is left.
func (s *Multiflow) chaseAll(ctx context.Context) bool {
	if s.of == nil {
		s.index()
		s.from = make([]hop, len(s.Room)+1)
	}
	for again := true; again && s.excess > 0; {
		again = false
		for r := range s.Room {
			for s.Load[r] > s.Room[r] && s.work > 0 && ctx.Err() == nil && s.chase(int32(r)) {
				again = true
			}
		}
	}
	return s.excess == 0
}

// chase looks, breadth first, for a chain of moves of which each relieves the resource
// that the one before has overloaded, and the last overloads none.
func (s *Multiflow) chase(root int32) bool {
	for i := range s.from {
		s.from[i].before = -2
	}
	s.from[root] = hop{before: -1}
	s.queue = append(s.queue[:0], root)
	last := int32(len(s.Room))
	for x := 0; x < len(s.queue); x++ {
		r := s.queue[x]
		for _, w := range s.users[s.begin[r]:s.begin[r+1]] {
			if s.Y[w] == 0 {
				continue
			}
			first, end := s.Ways(s.of[w])
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
func (s *Multiflow) shake(ctx context.Context) bool {
	rng := rand.New(rand.NewPCG(uint64(len(s.Y)), uint64(len(s.Room))))
	until := make([]int32, len(s.Y)) // [way] the move before which no unit may come back to it
	var over []int32
	least := s.work - shakeWork
	for move := int32(1); s.excess > 0 && s.work > least && ctx.Err() == nil; move++ {
		over = over[:0]
		for r := range s.Room {
			if s.Load[r] > s.Room[r] {
				over = append(over, int32(r))
			}
		}
		r := over[rng.IntN(len(over))]
		users := s.users[s.begin[r]:s.begin[r+1]]
		from, to, best, ties := int32(-1), int32(-1), int64(0), 0
		for _, w := range users {
			if s.Y[w] == 0 {
				continue
			}
			s.Add(w, -1)
			first, end := s.Ways(s.of[w])
			s.work -= int(end - first)
			for v := first; v < end; v++ {
				if v == w || until[v] > move {
					continue
				}
				s.Add(v, 1)
				if x := s.excess; ties == 0 || x < best {
					from, to, best, ties = w, v, x, 1
				} else if x == best {
					if ties++; rng.IntN(ties) == 0 {
						from, to = w, v
					}
				}
				s.Add(v, -1)
			}
			s.Add(w, 1)
		}
		s.work -= len(s.Room)/8 + 1
		if ties == 0 {
			continue
		}
		s.Add(from, -1)
		s.Add(to, 1)
		until[from] = move + 5 + rng.Int32N(10)
	}
	return s.excess == 0
}

// overloads returns the resource that a move from way w to way v would overload, −1 if
// none; fits is false if there would be two, or if v uses the resource to be relieved.
func (s *Multiflow) overloads(w, v, relieved int32) (full int32, fits bool) {
	full = -1
	old := s.Resources(w)
	for _, r := range s.Resources(v) {
		if r < 0 || s.Load[r] < s.Room[r] && r != relieved {
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
func (s *Multiflow) apply(state int32) bool {
	var path []hop
	for h := s.from[state]; ; h = s.from[h.before] {
		if h.before < 0 {
			break
		}
		path = append(path, h)
	}
	before, made := s.excess, 0
	for _, h := range path {
		if s.Y[h.from] == 0 {
			break
		}
		s.Add(h.from, -1)
		s.Add(h.to, 1)
		made++
	}
	if made == len(path) && s.excess < before {
		return true
	}
	for made--; made >= 0; made-- {
		s.Add(path[made].from, 1)
		s.Add(path[made].to, -1)
	}
	return false
}
