package fabgen

import (
	"math/rand/v2"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Test is a test of testing or of rapid.
type Test interface {
	Helper()
	Fatal(...any)
}

// Uplink returns the port of a cable to a spine, given by the number of its leaf and its lane.
// The first ports of each leaf are for as many hosts as the fullest leaf has.
func (s Spec) Uplink(f *topology.Fabric, cable [2]int) topology.PortRef {
	leaf := f.Find(LeafGUID + ib.GUID(cable[0]))
	return topology.PortRef{Node: leaf, Port: uint8(len(f.Nodes[leaf].Ports) - s.Spines*max(s.Cables, 1) + cable[1])}
}

// Cut disconnects cables of a fabric that Generate made, each as Uplink has it.
func (s Spec) Cut(f *topology.Fabric, dead ...[2]int) {
	for _, c := range dead {
		f.Disconnect(s.Uplink(f, c))
	}
}

// DrawDead draws n different cables for Cut.
func (s Spec) DrawDead(seed uint64, n int) [][2]int {
	dead := make([][2]int, n)
	for i, c := range rand.New(rand.NewPCG(seed, 2)).Perm(s.Spines * s.Leaves)[:n] {
		dead[i] = [2]int{c / s.Spines, c % s.Spines}
	}
	return dead
}

// Fit is a fat tree of two levels with dead cables, seen through the baseline of the whole one.
func (s Spec) Fit(dead ...[2]int) (*topology.FatTree, error) {
	return fit(Generate(s), func(f *topology.Fabric) { s.Cut(f, dead...) })
}

func fit(f *topology.Fabric, changes ...func(*topology.Fabric)) (*topology.FatTree, error) {
	base, err := topology.NewBaseline(f)
	if err != nil {
		return nil, err
	}
	for _, change := range changes {
		if change != nil {
			change(f)
		}
	}
	return topology.Fit(f, base, nil)
}

// Damaged is Fit for tests.
func Damaged(t Test, s Spec, dead ...[2]int) *topology.FatTree {
	t.Helper()
	tree, err := s.Fit(dead...)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// Fitted is a fat tree of two levels, after changes to its fabric, seen through the baseline
// of the unchanged fabric.
func Fitted(t Test, f *topology.Fabric, changes ...func(*topology.Fabric)) *topology.FatTree {
	t.Helper()
	tree, err := fit(f, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// FittedPods is a fat tree of three levels seen through its own baseline.
func FittedPods(t Test, f *topology.Fabric) *topology.PodTree {
	t.Helper()
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := topology.FitPods(f, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// Fails are changes that take nodes and cables out, each as topology.Fabric.Fail names them.
func Fails(t Test, what ...string) func(*topology.Fabric) {
	return func(f *topology.Fabric) {
		t.Helper()
		for _, w := range what {
			if _, err := f.Fail(w); err != nil {
				t.Fatal(err)
			}
		}
	}
}
