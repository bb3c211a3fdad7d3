package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
)

// Pattern is a kind of generated traffic.
type Pattern string

// The patterns. Skew is a parameter of all but Uniform.
const (
	// Uniform draws each message from 0 to twice the mean.
	Uniform Pattern = "uniform"
	// Hotspot is Uniform, except that the share Skew, 0 to 1, of the bytes from one server
	// to another goes from its first GPU to the other's first.
	Hotspot Pattern = "hotspot"
	// Zipf gives the destinations of each GPU, in a random order, shares proportional to
	// rank^−Skew.
	Zipf Pattern = "zipf"
	// MoE routes each token to two experts, one expert per GPU, whose popularity is
	// proportional to rank^−Skew and the same for all GPUs.
	MoE Pattern = "moe"
)

// Patterns lists the patterns.
var Patterns = []Pattern{Uniform, Hotspot, Zipf, MoE}

// topExperts is the number of experts of a token.
const topExperts = 2

// tokens is the number of tokens that a GPU routes in pattern MoE.
const tokens = 4096

// Generate makes traffic between GPUs of different servers, of mean bytes from one
// to another on average. Equal arguments give equal traffic.
func Generate(c Cluster, pattern Pattern, mean int64, skew float64, seed uint64) (*Traffic, error) {
	t, err := NewTraffic(c)
	if err != nil {
		return nil, err
	}
	if ranks := int64(c.Ranks()); mean < 0 || mean > maxTotal/4/ranks/ranks {
		return nil, fmt.Errorf("generate messages of %d bytes: want 0 to %d for %d GPUs", mean, maxTotal/4/ranks/ranks, ranks)
	}
	if !(skew >= 0 && skew <= 4) || pattern == Hotspot && skew > 1 {
		return nil, fmt.Errorf("generate %s traffic with a skew of %v: want 0 to 4, and at most 1 for %s", pattern, skew, Hotspot)
	}
	rng := rand.New(rand.NewPCG(seed, 0x67707573))
	switch pattern {
	case Uniform:
		t.uniform(mean, rng)
	case Hotspot:
		t.uniform(mean, rng)
		t.concentrate(skew)
	case Zipf:
		t.zipf(mean, skew, rng)
	case MoE:
		t.moe(mean, skew, rng)
	default:
		return nil, fmt.Errorf("unknown pattern %q: want one of %q", pattern, Patterns)
	}
	return t, nil
}

func (t *Traffic) uniform(mean int64, rng *rand.Rand) {
	ranks := t.Ranks()
	for at := range t.Bytes {
		if t.server(Rank(at/ranks)) != t.server(Rank(at%ranks)) {
			t.Bytes[at] = rng.Int64N(2*mean + 1)
		}
	}
}

// concentrate moves a share of each message to the first GPUs of the two servers.
func (t *Traffic) concentrate(share float64) {
	ranks, m := t.Ranks(), t.GPUs
	for at, v := range t.Bytes {
		source, destination := at/ranks, at%ranks
		part := int64(share * float64(v))
		t.Bytes[at] -= part
		t.Bytes[source/m*m*ranks+destination/m*m] += part
	}
}

func (t *Traffic) zipf(mean int64, skew float64, rng *rand.Rand) {
	ranks, m := t.Ranks(), t.GPUs
	shares := zipf(ranks-m, skew)
	for source := range ranks {
		others := rng.Perm(ranks - m) // ranks of other servers
		for place, destination := range others {
			if destination >= source/m*m {
				destination += m
			}
			t.Bytes[source*ranks+destination] = int64(shares[place] * float64(mean) * float64(ranks-m))
		}
	}
}

// zipf returns shares that are proportional to rank^−skew and sum to 1.
func zipf(n int, skew float64) []float64 {
	shares, sum := make([]float64, n), 0.0
	for k := range shares {
		shares[k] = math.Pow(float64(k+1), -skew)
		sum += shares[k]
	}
	for k := range shares {
		shares[k] /= sum
	}
	return shares
}

// moe routes tokens; the size of a token gives the mean.
func (t *Traffic) moe(mean int64, skew float64, rng *rand.Rand) {
	ranks := t.Ranks()
	ladder := zipf(ranks, skew)
	for k := range ranks - 1 {
		ladder[k+1] += ladder[k]
	}
	experts := rng.Perm(ranks) // by popularity
	counts := make([]int64, ranks*ranks)
	for source := range ranks {
		for range tokens {
			var chosen [topExperts]int
			for k := range min(topExperts, ranks) {
				chosen[k] = experts[pick(ladder, rng.Float64())]
				for k == 1 && chosen[1] == chosen[0] {
					chosen[1] = experts[pick(ladder, rng.Float64())]
				}
				counts[source*ranks+chosen[k]]++
			}
		}
	}
	bytes := float64(mean) * float64(ranks) / (tokens * topExperts)
	for at, v := range counts {
		if t.server(Rank(at/ranks)) != t.server(Rank(at%ranks)) {
			t.Bytes[at] = int64(float64(v) * bytes)
		}
	}
}

// pick returns the first index of cumulative sums that are at least v.
func pick(ladder []float64, v float64) int {
	return min(sort.SearchFloat64s(ladder, v), len(ladder)-1)
}

// FromRouting makes traffic from the number of tokens that GPUs route to experts,
// [GPU][expert]. Experts are placed in blocks: with twice as many experts as GPUs,
// GPU 0 has the first two. tokenBytes is the size of a token. The traffic of the way
// back is the transpose.
func FromRouting(c Cluster, experts int, counts []float64, tokenBytes int64) (*Traffic, error) {
	t, err := NewTraffic(c)
	if err != nil {
		return nil, err
	}
	ranks := c.Ranks()
	switch {
	case experts < ranks || experts%ranks != 0:
		return nil, fmt.Errorf("%d experts on %d GPUs: want as many on each, one at least", experts, ranks)
	case len(counts) != ranks*experts:
		return nil, fmt.Errorf("%d counts are not those of %d GPUs and %d experts", len(counts), ranks, experts)
	case tokenBytes < 1 || tokenBytes > 1<<30:
		return nil, fmt.Errorf("%d bytes a token: want 1 to %d", tokenBytes, 1<<30)
	}
	each := experts / ranks
	for at, v := range counts {
		source, expert := at/experts, at%experts
		if v < 0 || v > float64(int64(maxTotal)/tokenBytes) || v != float64(int64(v)) {
			return nil, fmt.Errorf("GPU %d routes %v tokens to expert %d: want a whole number of %d at most", source, v, expert, int64(maxTotal)/tokenBytes)
		}
		sum := &t.Bytes[source*ranks+expert/each]
		if *sum += int64(v) * tokenBytes; *sum > maxTotal {
			return nil, fmt.Errorf("GPU %d has more than %d bytes for GPU %d", source, int64(maxTotal), expert/each)
		}
	}
	return t, t.check()
}

// Transpose returns the traffic of the way back.
func (t *Traffic) Transpose() *Traffic {
	ranks := t.Ranks()
	back := &Traffic{Cluster: t.Cluster, Bytes: make([]int64, len(t.Bytes))}
	for at, v := range t.Bytes {
		back.Bytes[at%ranks*ranks+at/ranks] = v
	}
	return back
}
