package fabgen

import "github.com/forsd/forsd/topology"

// Test is a test of testing or of rapid.
type Test interface {
	Helper()
	Fatal(...any)
}

// Damaged is a fat tree of two levels with dead cables, each given by the number of its
// leaf and its lane.
func Damaged(t Test, s Spec, dead ...[2]int) *topology.FatTree {
	t.Helper()
	return Fitted(t, Generate(s), func(f *topology.Fabric) {
		for _, c := range dead {
			f.Disconnect(topology.PortRef{Node: f.Find(LeafGUID + topology.GUID(c[0])), Port: uint8(s.HostsOn(c[0]) + 1 + c[1])})
		}
	})
}

// Fitted is a fat tree of two levels, after changes to its fabric, seen through the baseline
// of the unchanged fabric.
func Fitted(t Test, f *topology.Fabric, changes ...func(*topology.Fabric)) *topology.FatTree {
	t.Helper()
	base, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		if change != nil {
			change(f)
		}
	}
	tree, err := topology.Fit(f, base, nil)
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
