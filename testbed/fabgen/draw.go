package fabgen

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// DrawCables draws different cables for Cut.
func DrawCables(rng *rand.Rand, s Spec, count int) (cables [][2]int) {
	for len(cables) < count {
		if c := [2]int{rng.IntN(s.Leaves), rng.IntN(s.Spines)}; !slices.Contains(cables, c) {
			cables = append(cables, c)
		}
	}
	return cables
}

// Drawn is a random fat tree of two levels: of 1 to 30 hosts a leaf, 4 to 24 spines, parallel
// cables or none, with hosts missing and up to 20 cables dead.
func Drawn(seed uint64) (s Spec, dead [][2]int) {
	rng := rand.New(rand.NewPCG(seed, 32))
	s = Spec{Spines: 4 + rng.IntN(21), Leaves: 2 + rng.IntN(14), Cables: 1 + rng.IntN(4)/3, LMC: uint8(rng.IntN(6))}
	most := 1 + rng.IntN(30)
	for l := range s.Leaves {
		n := most
		if rng.IntN(2) == 0 {
			n = 1 + rng.IntN(most)
		}
		s.Hosts = append(s.Hosts, n)
		for i := range n {
			if i > 0 && rng.IntN(12) == 0 {
				s.Missing = append(s.Missing, [2]int{l, i})
			}
		}
	}
	lanes := s
	lanes.Spines *= s.Cables
	return s, DrawCables(rng, lanes, min(rng.IntN(21), s.Leaves*lanes.Spines/4))
}

// Divided puts the servers of a tree into exchanges: those of a leaf into the same, but for a
// share of all, which are put into any.
func Divided(t *topology.FatTree, rng *rand.Rand, exchanges int, strays float64) *topology.FatTree {
	x := &topology.Exchanges{Of: map[ib.GUID]int{}}
	for i := range exchanges {
		x.Names = append(x.Names, fmt.Sprint("x", i))
	}
	ofLeaf := map[int]int{}
	for _, i := range t.Servers {
		h := &t.Hosts[i]
		if _, known := ofLeaf[h.Leaf]; !known {
			ofLeaf[h.Leaf] = rng.IntN(exchanges)
		}
		if x.Of[h.GUID] = ofLeaf[h.Leaf]; rng.Float64() < strays {
			x.Of[h.GUID] = rng.IntN(exchanges)
		}
	}
	return x.Divide(t)
}

// Ragged is a random fat tree of three levels, or of 16 ports a switch, of which 1 to 40 % of the
// hosts are missing, from the first or since the baseline, with up to eight dead parts.
func Ragged(seed uint64, large bool) (*topology.PodTree, error) {
	rng := rand.New(rand.NewPCG(seed, 51))
	s := TreeSpec{Pods: 3 + rng.IntN(6), Leaves: 2 + rng.IntN(3), Mids: 3 + rng.IntN(3), LMC: uint8(rng.IntN(3))}
	s.Tops = s.Leaves + rng.IntN(2)
	if s.Hosts = 2 + rng.IntN(s.Mids-1); large {
		lmc := s.LMC
		s = KAry(16)
		s.LMC = lmc
	}
	missing, late := .01+.39*rng.Float64(), rng.IntN(2) == 0
	var gone []string
	for l := range s.Pods * s.Leaves {
		for h := range s.Hosts {
			switch lacks := rng.Float64() < missing; {
			case lacks && late:
				gone = append(gone, fmt.Sprintf("Hca%04d", l*s.Hosts+h))
			case lacks:
				s.Missing = append(s.Missing, [2]int{l, h})
			}
		}
	}
	f := GenerateTree(s)
	b, err := topology.NewPodBaseline(f)
	if err != nil {
		return nil, err
	}
	for _, host := range gone {
		if _, err := f.Fail(host); err != nil {
			return nil, err
		}
	}
	for range rng.IntN(9) { // a part may be drawn twice, or with its switch
		_, _ = f.Fail([]string{fmt.Sprintf("Leaf%03d/%d", rng.IntN(s.Pods*s.Leaves), s.Hosts+1+rng.IntN(s.Mids)),
			fmt.Sprintf("Mid%03d/%d", rng.IntN(s.Pods*s.Mids), 1+rng.IntN(s.Leaves+s.Tops)), fmt.Sprintf("Top%03d", rng.IntN(s.Mids*s.Tops))}[rng.IntN(3)])
	}
	return topology.FitPods(f, b, nil)
}
