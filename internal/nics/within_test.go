package nics

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// within plans an exchange within the lanes of a tree whose hosts, in order, are the NICs. The plan
// is carried out byte by byte, and its transfers are followed through the tables.
func within(t *testing.T, tree *topology.FatTree, traffic *gpu.Traffic) (*gpu.Plan, *lanes.Plan) {
	t.Helper()
	var p gpu.Planner
	var hosts []string
	for r := range traffic.Ranks() {
		hosts = append(hosts, tree.Hosts[r].GUID.String())
	}
	routed, err := planner.Route(t.Context(), tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	plan, pinned, err := Within(traffic.Cluster, nil, gpu.Options{}, func(site *gpu.Site, o gpu.Options) (*gpu.Plan, error) {
		if site == nil {
			plan, err := p.Plan(t.Context(), traffic, o)
			if err != nil {
				return nil, err
			}
			return plan, gpu.Verify(t.Context(), traffic, plan)
		}
		plan, err := p.PlanSite(t.Context(), site, traffic.Bytes, o)
		if err != nil {
			return nil, err
		}
		return plan, gpu.VerifySite(t.Context(), site, traffic.Bytes, plan)
	}, func(plan *gpu.Plan) (*lanes.Plan, error) {
		q, err := Request(plan, gpu.DefaultModel, hosts)
		if err != nil {
			return nil, err
		}
		x, err := lanes.Pin(t.Context(), q, planner.Settings{}.Apart(tree))
		if err != nil {
			return nil, err
		}
		return x, x.Verify(q, tree, routed.Tables)
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan, pinned
}

// least is the least length of an exchange in a tree: what the busiest server sends or receives over
// its NICs, or the busiest leaf over its lanes.
func least(tree *topology.FatTree, traffic *gpu.Traffic) float64 {
	most, ranks := float64(traffic.Bound()), traffic.Ranks()
	for leaf := range tree.Leaves {
		out, in, up := int64(0), int64(0), 0
		for lane := range tree.Lanes {
			if tree.LaneUp(leaf, lane) {
				up++
			}
		}
		for at, bytes := range traffic.Bytes {
			a, b := at/ranks, at%ranks
			if from, to := tree.Hosts[a].Leaf, tree.Hosts[b].Leaf; from != to && a/traffic.GPUs != b/traffic.GPUs {
				if from == leaf {
					out += bytes
				}
				if to == leaf {
					in += bytes
				}
			}
		}
		most = max(most, float64(max(out, in))/float64(up))
	}
	return most
}

// As cables die one after the other, an exchange takes as long as the lanes that are up need for its
// bytes, and never less than before.
func TestWithinLanes(t *testing.T) {
	draws := 3
	if os.Getenv("FORS_LONG") != "" {
		draws = 100
	}
	bad, plans, worst := 0, 0, 0.0
	for draw := range draws {
		rng := rand.New(rand.NewPCG(41, uint64(draw)))
		spec := []fabgen.Spec{{Spines: 8, Leaves: 8, LMC: 4}, {Spines: 16, Leaves: 4, LMC: 5}, {Spines: 12, Leaves: 6, LMC: 4}, {Spines: 8, Leaves: 4, LMC: 4}}[rng.IntN(4)]
		m := []int{4, 8}[rng.IntN(2)]
		c := gpu.Cluster{Servers: spec.Spines * spec.Leaves / m, GPUs: m}
		pattern, size, skew := []gpu.Pattern{gpu.Uniform, gpu.MoE, gpu.Zipf}[rng.IntN(3)], int64(1)<<(16+rng.IntN(9)), 1.2*rng.Float64()
		traffic, err := gpu.Generate(c, pattern, size, skew, uint64(draw))
		if err != nil {
			t.Fatal(err)
		}
		var dead [][2]int
		last := 0.0
		for len(dead) < 10 {
			tree := fabgen.Damaged(t, spec, dead...)
			plan, pinned := within(t, tree, traffic)
			took := seconds(plan, pinned, gpu.Model{})
			bound := least(tree, traffic)
			text := fmt.Sprintf("draw %d, %+v on %d leaves of %d lanes, %s of %d bytes, skew %.1f, %d dead: %.1f µs, %d stages in %d parts, %.3f of their bound, %.3f of the least", draw, c, spec.Leaves, spec.Spines, pattern, size, skew, len(dead), took*1e6, len(plan.Stages), len(pinned.Parts), float64(pinned.Length)/float64(pinned.Bound), float64(pinned.Length)/bound)
			if float64(pinned.Length) > 1.05*float64(pinned.Bound) || took < .99*last {
				bad++
				t.Logf("%s; before %.1f µs", text, last*1e6)
			}
			plans++
			worst = max(worst, float64(pinned.Length)/bound)
			last = took
			for range []int{1, 1, 7}[min(2, len(dead))] {
				dead = append(dead, [2]int{rng.IntN(spec.Leaves), rng.IntN(spec.Spines)})
			}
		}
	}
	// The planner is a heuristic for the number of stages, and with a quarter of all cables dead not
	// every stage has lanes.
	if bad > plans/200 {
		t.Errorf("%d of %d plans are over 1.05 times their bound, or faster than with less damage", bad, plans)
	}
	t.Logf("%d of %d plans; at most %.2f times the least length of an exchange", bad, plans, worst)
}
