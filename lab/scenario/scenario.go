// Package scenario puts a fat tree into the failure scenarios of the FORS paper
// (section 3.1) and into random ones, plans the exchange in each, and measures on
// a real OpenSM over a simulated fabric the duration of the exchange on the tables
// of OpenSM's own routing engines.
package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// Tree is the fat tree FT(2;M0,M1): M1 leaves with M0 servers each, and M0
// spines, each with one cable to each leaf.
type Tree struct {
	Spines int // M0
	Leaves int // M1
}

// LHCb is the network of the paper, FT(2;20,18).
var LHCb = Tree{Spines: 20, Leaves: 18}

// String is the tree in the paper's notation.
func (t Tree) String() string { return fmt.Sprintf("FT(2;%d,%d)", t.Spines, t.Leaves) }

// Servers is P.
func (t Tree) Servers() int { return t.Spines * t.Leaves }

// LMC is the smallest with which a server has a LID for each spine.
func (t Tree) LMC() uint8 {
	lmc := uint8(0)
	for 1<<lmc < t.Spines {
		lmc++
	}
	return lmc
}

// maxPorts is the highest port number of a switch that a table can name.
const maxPorts = 254

// Validate returns why such an InfiniBand fabric is impossible: a switch has at most
// 254 ports, and a server 2^LMC of the 49151 unicast LIDs.
func (t Tree) Validate() error {
	switch {
	case t.Spines < 2 || t.Leaves < 2:
		return fmt.Errorf("%s: want two spines and two leaves or more", t)
	case 2*t.Spines > maxPorts || t.Leaves > maxPorts:
		return fmt.Errorf("%s: a leaf needs %d ports and a spine %d, and a switch has at most %d", t, 2*t.Spines, t.Leaves, maxPorts)
	}
	if lmc := t.LMC(); t.Spines+t.Leaves+(t.Servers()+1)<<lmc > int(ib.MaxUnicastLID) {
		return fmt.Errorf("%s: %d servers with %d LIDs each do not fit into the %d unicast LIDs", t, t.Servers(), 1<<lmc, ib.MaxUnicastLID)
	}
	return nil
}

// Fabric generates the undamaged tree with the given LMC.
func (t Tree) Fabric(lmc uint8) *topology.Fabric {
	return fabgen.Generate(fabgen.Spec{Spines: t.Spines, Leaves: t.Leaves, LMC: lmc})
}

// Cable joins a leaf and a spine, each counted from 0.
type Cable struct{ Leaf, Spine int }

// Scenario is a set of failures.
type Scenario struct {
	// Name is the paper's: switches are counted leaves first, so that SW0 is the
	// first leaf, and SW18 the first spine of FT(2;20,18).
	Name   string
	Cables []Cable
	Spines []int // dead as a whole, counted from 0
}

// Dead counts the cables that are dead on tree t, those of dead spines included.
func (s *Scenario) Dead(t Tree) int { return len(s.Cables) + len(s.Spines)*t.Leaves }

// Damage takes the failed cables out of a fabric that t.Fabric made. A dead spine
// stays as a node without cables.
func (s *Scenario) Damage(t Tree, f *topology.Fabric) {
	for _, c := range s.Cables {
		t.pull(f, c)
	}
	for _, spine := range s.Spines {
		for leaf := range t.Leaves {
			t.pull(f, Cable{leaf, spine})
		}
	}
}

// pull takes a cable out. The uplinks of a leaf follow its M0 host ports.
func (t Tree) pull(f *topology.Fabric, c Cable) {
	leaf := f.Find(fabgen.LeafGUID + ib.GUID(c.Leaf))
	f.Disconnect(topology.PortRef{Node: leaf, Port: uint8(t.Spines + 1 + c.Spine)})
}

// Paper lists the nine scenarios of the paper's section 3.1, in the order of its
// Figs. 3 and 6. If the paper draws spines at random (xF SW0), the first ones fail.
// On a tree other than FT(2;20,18) the leaves SW5 and SW11 become those as far along
// the row of leaves; scenarios that the tree is too small for are left out.
func Paper(t Tree) []Scenario {
	list := []Scenario{{Name: "0F"}}
	for x := 1; x <= 3; x++ {
		if x < t.Spines {
			list = append(list, severed(fmt.Sprintf("%dF SW0", x), x, 0))
		}
		b, c := 5*t.Leaves/18, 11*t.Leaves/18
		if 0 < b && b < c && 3*x <= t.Spines {
			list = append(list, severed(fmt.Sprintf("%dF SW0,%d,%d", x, b, c), x, 0, b, c))
		}
	}
	first := t.Leaves // SW18
	if t.Spines >= 3 {
		list = append(list, Scenario{Name: fmt.Sprintf("SW%d,%d out", first, first+1), Spines: []int{0, 1}})
	}
	if t.Spines >= 6 {
		list = append(list, Scenario{Name: fmt.Sprintf("SW%d,%d,%d,%d out", first, first+1, first+4, first+5), Spines: []int{0, 1, 4, 5}})
	}
	return list
}

// severed cuts each of the leaves off x spines, consecutive ones, no two leaves
// off the same.
func severed(name string, x int, leaves ...int) Scenario {
	s := Scenario{Name: name}
	for _, leaf := range leaves {
		for range x {
			s.Cables = append(s.Cables, Cable{leaf, len(s.Cables)})
		}
	}
	return s
}

// randomDead are the numbers of dead cables of random scenarios in turn, out of
// the 360 of FT(2;20,18): one, as many as in 3F SW0,5,11, a ninth, a third.
var randomDead = []int{1, 9, 40, 120}

// Random draws n scenarios with dead cables anywhere, every set of cables of a
// size as likely as any other. On FT(2;20,18) 1, 9, 40 and 120 cables are dead in
// turn, on another tree the same share. A seed always gives the same scenarios,
// for any n.
func Random(t Tree, n int, seed uint64) []Scenario {
	list := make([]Scenario, n)
	cables := t.Spines * t.Leaves
	for i := range list {
		share := randomDead[i%len(randomDead)]
		dead := max(1, (cables*share+LHCb.Servers()/2)/LHCb.Servers())
		drawn := rand.New(rand.NewPCG(seed, uint64(i))).Perm(cables)[:dead]
		slices.Sort(drawn)
		s := Scenario{Name: fmt.Sprintf("R%d: %d cables", i+1, dead)}
		if dead == 1 {
			s.Name = fmt.Sprintf("R%d: 1 cable", i+1)
		}
		for _, c := range drawn {
			s.Cables = append(s.Cables, Cable{c / t.Spines, c % t.Spines})
		}
		list[i] = s
	}
	return list
}
