// Package tomography finds the slow parts of a fabric from the times that transfers of an
// exchange took.
//
// By a plan each link carries one transfer in a phase, so that a transfer takes as long as the
// slowest link of its way asks for. Let y be the logarithm of a transfer's time, less the
// median of its phase. Links without fault have a y of 0 and noise, a link that is slower by
// a part x has ln(1+x) in all its transfers. A part is a set of links that can be slow
// together: a link, a cable in both directions, a switch. Its score is the sum of ψ(y/σ) over
// its transfers, in standard deviations of that sum, where ψ is Huber's function, which bounds
// the weight of an outlier, and σ is the noise, by the median of |y|.
//
//	repeat
//	    take the part that explains most, of those with a score above the threshold
//	    leave out its transfers: a slower part explains them
//
// What a part explains is the sum of ρ(y/σ) − ρ((y−e)/σ) over its transfers, a difference of
// log-likelihoods, where ρ is the integral of ψ and e, the logarithm of 1 + its slowdown, is
// the median of y. The threshold is such that an exchange without a fault names a part with
// a probability of one in a thousand at most, by Bonferroni's inequality over all parts. Once
// k parts are named, the next may have a probability that is k+1 times as large (Benjamini and
// Hochberg, Journal of the Royal Statistical Society B 57, 1995): of the parts named, one in a
// thousand is wrong. Two parts are not told apart where the second would explain nearly as
// much: see api.SlowPart.Or.
//
// No method can name many more. One that has a probability of a_i to name part i of a fabric
// without a fault names it, when n transfers of it take ln(1+x) longer, with a probability of
// Φ(√n ln(1+x)/σ − z(a_i)) at most, by the lemma of Neyman and Pearson, where z(a) is exceeded
// with a probability of a. If it names one part only, the a_i add up to its false alarms. See
// TestBound.
package tomography

import (
	"fmt"
	"math"
	"slices"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
)

// Transfer is what one server sent to another in a phase.
type Transfer struct {
	Phase    int32
	Src, Dst ib.GUID // host ports
	Bytes    int64   // 0: not known
	Took     float64 // nanoseconds, or any unit that is the same for all
	Links    []int32 // on its way, by numbers from 0
}

// Part is a set of links that can be slow together.
type Part struct {
	Name  string
	Links []int32
	Cable int32 // that it is, or is a link of, by Links.Cables; −1: a switch
}

const (
	huber  = 2.5    // where Huber's function becomes constant, in σ
	mad    = 1.4826 // a normal distribution's σ, in medians of its absolute value
	nearly = 4.6    // what two parts explain differs by less if they are not told apart: ln 100
	alarm  = 1e-3   // probability of naming a part without a fault
	fewest = 5      // transfers of a part that can be judged
)

// find finds the slow parts, those with the most evidence first.
func find(transfers []Transfer, parts []Part) (*search, *api.Measured, error) {
	s, err := newSearch(transfers, parts)
	if err != nil {
		return nil, nil, err
	}
	r := &api.Measured{Transfers: len(s.y), Noise: s.noise, Threshold: threshold(len(s.parts), 0), Slow: []api.SlowPart{}, Cables: []api.MeasuredCable{}}
	for slow := s.next(r.Threshold); slow != nil; slow = s.next(threshold(len(s.parts), len(r.Slow))) {
		r.Slow = append(r.Slow, *slow)
	}
	return s, r, nil
}

// search is the state of Find.
type search struct {
	parts []Part
	y     []float64
	noise float64
	of    [][]int32 // [part] transfers that pass it
	left  []bool    // [transfer] no part named so far explains it
	named []named
}

// named is a slow part, with those that are not told apart from it, and the transfers that it
// explains.
type named struct {
	parts     []int
	transfers []int32
}

func newSearch(transfers []Transfer, parts []Part) (*search, error) {
	s := &search{parts: parts, y: make([]float64, len(transfers)), left: make([]bool, len(transfers)), of: make([][]int32, len(parts))}
	phases := map[int32][]float64{}
	links := int32(0)
	for i := range transfers {
		t := &transfers[i]
		if !(t.Took > 0) || math.IsInf(t.Took, 1) {
			return nil, fmt.Errorf("transfer %d takes %v: want a positive time", i, t.Took)
		}
		s.y[i], s.left[i] = math.Log(t.Took), true
		phases[t.Phase] = append(phases[t.Phase], s.y[i])
		for _, l := range t.Links {
			links = max(links, l+1)
		}
	}
	medians := map[int32]float64{}
	for phase, ys := range phases {
		medians[phase] = median(ys)
	}
	spread := make([]float64, len(s.y))
	passes := make([][]int32, links)
	for i := range transfers {
		s.y[i] -= medians[transfers[i].Phase]
		spread[i] = math.Abs(s.y[i])
		for _, l := range transfers[i].Links {
			passes[l] = append(passes[l], int32(i))
		}
	}
	s.noise = max(mad*median(spread), 1e-6)
	for p := range parts {
		for _, l := range parts[p].Links {
			if l < links {
				s.of[p] = append(s.of[p], passes[l]...)
			}
		}
		slices.Sort(s.of[p])
		s.of[p] = slices.Compact(s.of[p])
	}
	return s, nil
}

// median returns the median of a list, which it sorts.
func median(ys []float64) float64 {
	if len(ys) == 0 {
		return 0
	}
	slices.Sort(ys)
	return (ys[(len(ys)-1)/2] + ys[len(ys)/2]) / 2
}

// scores returns the score of each part by the transfers that are left.
func (s *search) scores() []float64 {
	psi := make([]float64, len(s.y))
	sum, squares, n := 0.0, 0.0, 0
	for i, left := range s.left {
		if left {
			psi[i] = max(-huber, min(huber, s.y[i]/s.noise))
			sum += psi[i]
			squares += psi[i] * psi[i]
			n++
		}
	}
	mean := sum / float64(max(1, n))
	deviation := math.Sqrt(max(squares/float64(max(1, n))-mean*mean, 1e-12))
	scores := make([]float64, len(s.parts))
	for p := range scores {
		sum, n := 0.0, 0
		for _, i := range s.of[p] {
			if s.left[i] {
				sum += psi[i] - mean
				n++
			}
		}
		if n >= fewest {
			scores[p] = sum / (deviation * math.Sqrt(float64(n)))
		}
	}
	return scores
}

// next names the part that explains most, and leaves out its transfers. It returns nil if no
// score exceeds the threshold.
func (s *search) next(threshold float64) *api.SlowPart {
	var best *api.SlowPart
	var gains []float64
	var parts []int
	part, most := 0, 0.0
	for p, score := range s.scores() {
		if score < threshold {
			continue
		}
		effect, gain, n := s.explains(p)
		parts, gains = append(parts, p), append(gains, gain)
		if best != nil && gain <= most {
			continue
		}
		part, most = p, gain
		best = &api.SlowPart{Name: s.parts[p].Name, Score: score, Transfers: n, Slowdown: math.Expm1(effect), Error: s.wide(effect, n)}
	}
	if best == nil {
		return nil
	}
	now := named{parts: []int{part}}
	for i, p := range parts {
		if p != part && most-gains[i] < nearly {
			best.Or = append(best.Or, s.parts[p].Name)
			now.parts = append(now.parts, p)
		}
	}
	for _, i := range s.of[part] {
		if s.left[i] {
			s.left[i] = false
			now.transfers = append(now.transfers, i)
		}
	}
	s.named = append(s.named, now)
	return best
}

// wide is half the width of the interval that has a slowdown with 95 %, by the median of n
// transfers: that of normal values has a standard deviation of σ √(π/2n).
func (s *search) wide(effect float64, n int) float64 {
	return 1.96 * s.noise * math.Sqrt(math.Pi/2/float64(n)) * math.Exp(effect)
}

// explains returns the median of a part's transfers that are left, by how much the loss falls
// if they are slow by that, and their number.
func (s *search) explains(p int) (effect, gain float64, n int) {
	var ys []float64
	for _, i := range s.of[p] {
		if s.left[i] {
			ys = append(ys, s.y[i])
		}
	}
	effect = median(ys)
	for _, y := range ys {
		gain += loss(y/s.noise) - loss((y-effect)/s.noise)
	}
	return effect, gain, len(ys)
}

// loss is Huber's ρ.
func loss(x float64) float64 {
	if x = math.Abs(x); x > huber {
		return huber * (x - huber/2)
	}
	return x * x / 2
}

// threshold is the score of the next part after some are named: what a normal value exceeds
// with a probability.
func threshold(parts, named int) float64 {
	return math.Sqrt2 * math.Erfcinv(2*alarm*float64(1+named)/float64(max(1, parts)))
}
