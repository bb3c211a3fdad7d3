package papers

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/forsd/forsd/optical/photonic"
)

// Rounds is the method of the paper on reconfigurable photonics with d topologies: cycles in
// its order for one switch, and for more its circulants, contracted (sections 4.2 and 4.3).
// Each class goes over the topology on which it takes the fewest hops. A round lasts as long
// as its largest message; relabel places GPUs so that large messages share rounds (4.4).
// Rounds returns nil if all classes have direct links before d topologies.
func Rounds(ctx context.Context, in *photonic.Instance, d int, relabel bool) (*photonic.Plan, error) {
	if err := in.Check(); err != nil {
		return nil, err
	}
	n, k := in.GPUs, in.Degree
	s := newSequence(n, k)
	for t := range d {
		offsets := circulantOffsets(n, k)
		if k == 1 {
			offsets = PaperShifts(n)[t : t+1]
		} else if t > 0 {
			if offsets = s.contract(); offsets == nil {
				return nil, nil
			}
		}
		s.add(offsets)
	}
	return s.plan(ctx, in, relabel)
}

// plan makes the rounds of a sequence.
func (s *sequence) plan(ctx context.Context, in *photonic.Instance, relabel bool) (*photonic.Plan, error) {
	n, k := s.n, s.k
	p := &photonic.Plan{GPUs: n, Degree: k, Family: "circulant", Label: make([]int32, n)}
	for i := range p.Label {
		p.Label[i] = int32(i)
	}
	for _, offsets := range s.offsets {
		p.Topologies = append(p.Topologies, photonic.Topology{Offsets: offsets})
	}
	rounds := s.rounds()
	slices.SortStableFunc(rounds, func(a, b packed) int {
		return cmp.Or(cmp.Compare(a.topology, b.topology), cmp.Compare(a.hops, b.hops))
	})
	for _, r := range rounds {
		var count []int32
		for _, x := range r.classes {
			for _, h := range s.hops[x] {
				count = append(count, int32(h))
			}
		}
		length, switches, err := photonic.OpenShop(ctx, k, count)
		if err != nil {
			return nil, err
		}
		round := photonic.Round{Topology: r.topology, Hops: length}
		for i, x := range r.classes {
			round.Paths = append(round.Paths, photonic.Path{Class: x, Switches: switches[i]})
		}
		p.Rounds = append(p.Rounds, round)
	}
	if relabel && in.Sizes != nil {
		if err := together(ctx, in, p); err != nil {
			return nil, err
		}
	}
	p.Sum = roundsTime(in, p)
	p.Cost, p.HopSum = p.Sum+photonic.Time(len(p.Topologies))*in.Reconfig, float64(p.Sum)/float64(in.T())
	_, err := photonic.Replay(ctx, in, p)
	return p, err
}

// BestRounds is the cheapest plan of Rounds of any number of topologies.
func BestRounds(ctx context.Context, in *photonic.Instance, relabel bool) (best *photonic.Plan, err error) {
	for d := 1; d <= (in.GPUs-2+in.Degree)/in.Degree; d++ {
		p, err := Rounds(ctx, in, d, relabel)
		if err != nil || p == nil {
			return best, err
		}
		if best == nil || p.Cost < best.Cost {
			best = p
		}
	}
	return best, nil
}

// roundsTime is the time of all rounds.
func roundsTime(in *photonic.Instance, p *photonic.Plan) (sum photonic.Time) {
	for _, r := range p.Rounds {
		largest := in.Message
		if in.Sizes != nil {
			largest = 0
			for _, path := range r.Paths {
				largest = max(largest, largestOf(in, p.Label, path.Class))
			}
		}
		sum += photonic.Time(r.Hops) * in.Link.Time(largest)
	}
	return sum
}

// largestOf is the largest message of a class.
func largestOf(in *photonic.Instance, label []int32, class int) (largest int64) {
	for at, src := range label {
		largest = max(largest, in.Sizes[int(src)*in.GPUs+int(label[(at+class)%in.GPUs])])
	}
	return largest
}

// together swaps GPUs while that shortens the rounds.
func together(ctx context.Context, in *photonic.Instance, p *photonic.Plan) error {
	least := roundsTime(in, p)
	for sweep, again := 0, true; again && sweep < 8; sweep++ {
		again = false
		for a := range p.Label {
			if err := ctx.Err(); err != nil {
				return err
			}
			for b := range a {
				p.Label[a], p.Label[b] = p.Label[b], p.Label[a]
				if t := roundsTime(in, p); t < least {
					least, again = t, true
				} else {
					p.Label[a], p.Label[b] = p.Label[b], p.Label[a]
				}
			}
		}
	}
	return nil
}

// circulantOffsets are the offsets of the paper's base circulant of degree k = 2, n−m and
// n−m−1 with m = ⌈(√(2n−1)−1)/2⌉ (section 4.2; Fig. 8 has n = 8). For higher degrees, which
// the paper leaves open, they continue: n−m−2, ….
func circulantOffsets(n, k int) []int {
	m := int(math.Ceil((math.Sqrt(float64(2*n-1)) - 1) / 2))
	offsets := make([]int, k)
	for j := range offsets {
		offsets[j] = max(1, ((n-m-j)%n+n)%n)
	}
	return offsets
}

// sequence is a sequence of circulants, each of which serves some classes.
type sequence struct {
	n, k    int
	offsets [][]int // [topology]
	least   []int   // [class] hops
	hops    [][]int // [class][switch]
	by      []int   // [class] the topology
}

func newSequence(n, k int) *sequence {
	return &sequence{n: n, k: k, least: slices.Repeat([]int{far}, n), hops: make([][]int, n), by: make([]int, n)}
}

// add adds a topology; classes that it serves in fewer hops move to it.
func (s *sequence) add(offsets []int) {
	from := slices.Repeat([]int{-1}, s.n) // [class] the switch of the last hop
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		for h, a := range offsets {
			y := (queue[0] + a) % s.n
			if y == 0 || from[y] >= 0 {
				continue
			}
			from[y] = h
			queue = append(queue, y)
			total, hops := 0, make([]int, s.k)
			for x := y; x != 0; x = (x - offsets[from[x]] + s.n) % s.n {
				total++
				hops[from[x]]++
			}
			if total < s.least[y] {
				s.least[y], s.by[y], s.hops[y] = total, len(s.offsets), hops
			}
		}
	}
	s.offsets = append(s.offsets, offsets)
}

// packed is a round being filled.
type packed struct {
	topology, hops int
	classes        []int
	load           []int // [switch]
}

// rounds packs each class, the longest first, into the first round of its topology that has
// fewer than k classes and room. The order of hops on a circulant is free, so a round has
// room as long as no switch has more hops than the longest class.
func (s *sequence) rounds() []packed {
	order := make([]int, 0, s.n)
	for x := 1; x < s.n; x++ {
		order = append(order, x)
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(s.least[y], s.least[x]) })
	var rounds []packed
	for _, x := range order {
		i := slices.IndexFunc(rounds, func(r packed) bool {
			if r.topology != s.by[x] || len(r.classes) == s.k {
				return false
			}
			for h, hops := range s.hops[x] {
				if r.load[h]+hops > r.hops {
					return false
				}
			}
			return true
		})
		if i < 0 {
			i = len(rounds)
			rounds = append(rounds, packed{s.by[x], s.least[x], nil, make([]int, s.k)})
		}
		rounds[i].classes = append(rounds[i].classes, x)
		for h, hops := range s.hops[x] {
			rounds[i].load[h] += hops
		}
	}
	return rounds
}

// contract returns the offsets by which the first of the rounds with the most hops gets
// direct links; a round of fewer than k classes is completed from the following ones. It
// returns nil if every class has a direct link.
func (s *sequence) contract() (offsets []int) {
	rounds := s.rounds()
	slices.SortStableFunc(rounds, func(a, b packed) int { return cmp.Compare(b.hops, a.hops) })
	if rounds[0].hops == 1 {
		return nil
	}
	for _, r := range rounds {
		offsets = append(offsets, r.classes...)
	}
	for len(offsets) < s.k {
		offsets = append(offsets, 1)
	}
	return offsets[:s.k:s.k]
}
