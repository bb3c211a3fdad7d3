package papers

import (
	"fmt"
	"math"
	"slices"

	"github.com/forsd/forsd/optical/photonic"
)

// Digits is an exchange by the digits of the distances that messages have to go: phase i takes
// them over the digits of weight b^i, so that ⌈log_b n⌉ phases deliver all. Base 2 is J. Bruck's
// algorithm. Base 3 is A. Juerss's and S. Schmid's ReTri (2026) with digits −1, 0 and 1, so that
// each GPU sends both ways over a pair of switches. Switches are set to b^i at the phases where
// that pays; until then a phase uses the circuits that exist, by several hops a digit, as ReTri
// does and as Bridge (2026) does for base 2. Messages are of one size. Modelled from the papers'
// descriptions.
func Digits(in *photonic.Instance, base int) (*photonic.Plan, error) {
	if err := in.Check(); err != nil {
		return nil, err
	}
	if in.Sizes != nil || base != 2 && base != 3 || base == 3 && in.Degree%2 == 1 {
		return nil, fmt.Errorf("digits of base %d for %d switches: want messages of one size and base 2, or 3 for an even number of switches", base, in.Degree)
	}
	var weights []int
	for w := 1; w < in.GPUs; w *= base {
		weights = append(weights, w)
	}
	rounds := make([][][]photonic.Path, len(weights)) // [phase][round], of one hop
	for i, w := range weights {
		rounds[i] = digitRounds(in.GPUs, in.Degree, base, w)
	}
	// cost[b] is the least of the phases before b, the last topology set at phase from[b].
	cost, from := make([]photonic.Time, len(weights)+1), make([]int, len(weights)+1)
	for b := 1; b <= len(weights); b++ {
		for a := range b {
			c := cost[a] + in.Reconfig
			for i := a; i < b; i++ {
				c += photonic.Time(len(rounds[i])*weights[i]/weights[a]) * in.T()
			}
			if a == 0 || c < cost[b] {
				cost[b], from[b] = c, a
			}
		}
	}
	var starts []int
	for b := len(weights); b > 0; b = from[b] {
		starts = append(starts, from[b])
	}
	slices.Reverse(starts)
	p := &photonic.Plan{GPUs: in.GPUs, Degree: in.Degree, Family: "circulant"}
	for t, a := range starts {
		p.Topologies = append(p.Topologies, photonic.Topology{Offsets: digitOffsets(in.GPUs, in.Degree, base, weights[a])})
		end := len(weights)
		if t+1 < len(starts) {
			end = starts[t+1]
		}
		for i := a; i < end; i++ {
			hops := weights[i] / weights[a]
			for _, paths := range rounds[i] {
				r := photonic.Round{Topology: t, Hops: hops, Paths: make([]photonic.Path, len(paths))}
				for j, path := range paths {
					r.Paths[j] = photonic.Path{Class: path.Class, Switches: slices.Repeat(path.Switches, hops)}
				}
				p.Rounds = append(p.Rounds, r)
				p.Sum += photonic.Time(hops) * in.T()
			}
		}
	}
	p.Cost, p.HopSum = p.Sum+photonic.Time(len(p.Topologies))*in.Reconfig, float64(p.Sum)/float64(in.T())
	return p, nil
}

// digitRounds are the messages whose digit of a weight is not 0, as many at a time as there
// are switches in their direction.
func digitRounds(n, k, base, w int) (rounds [][]photonic.Path) {
	var ways [2][]int // classes, by the sign of the digit
	for x := 1; x < n; x++ {
		digit := x / w % 2
		if base == 3 {
			rest := x // the remainder, for the digits from w on
			if 2*x > n {
				rest -= n
			}
			for at := 1; at < w; at *= 3 {
				rest = int(math.Round(float64(rest) / 3))
			}
			digit = (rest%3 + 3) % 3
		}
		if digit > 0 {
			ways[digit-1] = append(ways[digit-1], x)
		}
	}
	for len(ways[0])+len(ways[1]) > 0 {
		var round []photonic.Path
		for s := range k {
			way := &ways[0]
			if base == 3 {
				way = &ways[s%2]
			}
			if len(*way) > 0 {
				round = append(round, photonic.Path{Class: (*way)[0], Switches: []int8{int8(s)}})
				*way = (*way)[1:]
			}
		}
		rounds = append(rounds, round)
	}
	return rounds
}

// digitOffsets are the offsets of the switches for digits of a weight.
func digitOffsets(n, k, base, w int) []int {
	offsets := make([]int, k)
	for s := range offsets {
		offsets[s] = w
		if base == 3 && s%2 == 1 {
			offsets[s] = n - w
		}
	}
	return offsets
}
