package planner

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// otherFabric draws a fabric that is not a two-level fat tree, or looks like one: trees of
// three levels, dragonflies, tori, full meshes, with nodes and cables missing as in a
// half-discovered subnet, and with aggregation nodes.
func otherFabric(rng *rand.Rand) (what string, f *topology.Fabric) {
	switch rng.IntN(6) {
	case 0:
		what = "pods"
		sizes := []int{1 + rng.IntN(5), 1 + rng.IntN(5), 1 + rng.IntN(5), 1 + rng.IntN(5), 1 + rng.IntN(5)}
		f = fabgen.Pods(fabgen.PodSpec{Pods: 2 + rng.IntN(4), Spines: 1 + rng.IntN(4), Tops: 1 + rng.IntN(4), Hosts: 1 + rng.IntN(4),
			Leaf: func(pod int) int { return sizes[pod] }})
	case 1:
		what, f = "dragonfly", fabgen.Dragonfly(2+rng.IntN(5), 2+rng.IntN(4), 1+rng.IntN(3))
	case 2:
		what, f = "torus", fabgen.Torus(3+rng.IntN(4), 3+rng.IntN(4), 1+rng.IntN(3))
	case 3:
		what, f = "full mesh", fabgen.Dragonfly(1+rng.IntN(9), 1, 1+rng.IntN(4))
	case 4:
		what, f = "any graph", fabgen.Random(rng)
	default:
		what, f = "tree", fabgen.Generate(fabgen.Spec{Spines: 1 + rng.IntN(5), Leaves: 1 + rng.IntN(6), Hosts: []int{1 + rng.IntN(5)}, LMC: 3})
	}
	if rng.IntN(2) == 0 {
		what, f = what+" with aggregation nodes", fabgen.WithAggregation(f)
	}
	if rng.IntN(2) == 0 {
		what += ", half discovered"
		for i := range f.Nodes {
			for p := range f.Nodes[i].Ports {
				if rng.IntN(8) == 0 {
					f.Disconnect(topology.PortRef{Node: int32(i), Port: uint8(p)})
				}
			}
		}
	}
	return what, f
}

// TestShapes plans fabrics of all shapes by their shape, or refuses them in one sentence. No
// plan leaves out more pairs than allowed, and the parts that a plan does not cover are
// named.
func TestShapes(t *testing.T) {
	planned, refused := map[string]int{}, map[string]int{}
	for seed := range 10 * oddFabrics() {
		what, f := otherFabric(rand.New(rand.NewPCG(uint64(seed), 3)))
		kind, _, _ := strings.Cut(what, ",")
		if err := planShape(t, f); err != nil {
			var other *topology.NotFatTree
			var notYet *topology.NotYet
			var few *TooManyUnreachable
			if !errors.As(err, &other) && !errors.As(err, &notYet) && !errors.As(err, &few) && !strings.Contains(err.Error(), "has no server") {
				t.Fatalf("seed %d, %s: %v", seed, what, err)
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
				t.Errorf("seed %d, %s: more than a sentence: %v", seed, what, err)
			}
			refused[kind]++
			continue
		}
		planned[kind]++
	}
	t.Log("planned", planned, "refused", refused)
	for _, kind := range []string{"dragonfly", "torus"} {
		if refused[kind] == 0 {
			t.Errorf("no %s is refused", kind)
		}
	}
}

// planShape plans a fabric; nil means that its plan is sound.
func planShape(t *testing.T, f *topology.Fabric) error {
	base, err := topology.NewBaseline(f)
	if err != nil {
		return err
	}
	tree, err := topology.Fit(f, base, nil)
	if err != nil {
		t.Errorf("the fabric of a new baseline: %v", err)
		return err
	}
	r, err := Make(context.Background(), tree, Settings{})
	if err != nil {
		return err
	}
	if err := verify.Tables(tree, r.Tables); err != nil {
		t.Error(err)
	}
	servers, hosts, held, all := len(tree.Servers), 0, 0, 0
	for _, e := range f.EndPorts() {
		role := f.Nodes[e.Node].Role
		if !f.At(e.PortRef).Up() || role == topology.SwitchNode || role == topology.AggregationNode {
			continue
		}
		if all++; role.TakesPart() {
			hosts++
		}
	}
	for i := range tree.Hosts {
		if tree.Hosts[i].Leaf >= 0 {
			held++
		}
	}
	if pairs := servers * (servers - 1); 100*len(r.Plan.Unreachable) > pairs {
		t.Errorf("%d of %d pairs are left out", len(r.Plan.Unreachable), pairs)
	}
	if servers+len(tree.Uncovered.Hosts) != hosts || 2*held <= all {
		t.Errorf("%d servers and %d uncovered hosts of %d; %d of %d host ports on leaves", servers, len(tree.Uncovered.Hosts), hosts, held, all)
	}
	return nil
}

// TestAggregationNodes plans FT(2;20,18) as Quantum switches show it: 360 servers, as many
// phases as without aggregation nodes, no finding.
func TestAggregationNodes(t *testing.T) {
	f := fabgen.WithAggregation(fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}))
	base, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, dead := range []string{"", "Leaf007/31", "Spine003/2"} {
		g := f.Clone()
		if dead != "" {
			if _, err := g.Fail(dead); err != nil {
				t.Fatal(err)
			}
		}
		tree, err := topology.Fit(g, base, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Make(context.Background(), tree, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		rep := r.Report()
		if rep.Phases != 359 || rep.Gap != 0 || rep.Servers != 360 || rep.Leaves != 18 || rep.Spines != 20 {
			t.Errorf("%q: %+v", dead, rep)
		}
		if want := min(1, len(dead)); len(tree.Findings) != want || len(tree.Routed) != 38 {
			t.Errorf("%q: %d aggregation nodes, findings %v", dead, len(tree.Routed), tree.Findings)
		}
		for _, h := range tree.Routed {
			if n, err := r.Tables.Trace(g, tree.Hosts[0].PortRef, h.LID); err != nil || n[len(n)-1].Node != h.Node {
				t.Errorf("%q: %s is not reached: %v", dead, h.Name, err)
			}
		}
	}
}

// TestThreeLevelsOfQuantum refuses a cluster of three levels with 666 switches, each with
// an aggregation node.
func TestThreeLevelsOfQuantum(t *testing.T) {
	f := fabgen.WithAggregation(fabgen.Pods(fabgen.PodSpec{Pods: 21, Leaves: 16, Spines: 8, Tops: 162, Hosts: 16}))
	_, err := topology.NewBaseline(f)
	var other *topology.NotFatTree
	if !errors.As(err, &other) || !strings.Contains(err.Error(), "there are three levels or more") {
		t.Errorf("%v", err)
	}
}
