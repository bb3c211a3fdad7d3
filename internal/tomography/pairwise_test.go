package tomography

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// pairs makes rounds as pairwise tests do (ClusterKit, hp2p): disjoint random pairs of hosts, which
// send to each other at the same time. Each has one time, that of the slower way, by the most
// transfers that share a link with it if shared is set.
func (b *bench) pairs(t *testing.T, tables *lft.Tables, hosts []topology.EndPort, rng *rand.Rand, rounds int, shared bool) (out []Transfer, share []float64) {
	t.Helper()
	ways := b.links.newWays(tables)
	for r := range rounds {
		order := rng.Perm(len(hosts))
		uses := map[int32]int{}
		first := len(out)
		for i := 0; i+1 < len(order); i += 2 {
			x, y := &hosts[order[i]], &hosts[order[i+1]]
			to, err := ways.of(x.GUID, y.LID)
			if err != nil {
				t.Fatal(err)
			}
			back, err := ways.of(y.GUID, x.LID)
			if err != nil {
				t.Fatal(err)
			}
			links := slices.Concat(to, back)
			for _, l := range links {
				uses[l]++
			}
			out = append(out, Transfer{Phase: int32(r), Src: x.GUID, Dst: y.GUID, Links: links})
		}
		for i := range out[first:] {
			most := 1
			for _, l := range out[first+i].Links {
				if shared {
					most = max(most, uses[l])
				}
			}
			share = append(share, float64(most))
		}
	}
	return out, share
}

// rounds is how many rounds it takes until a cable or a link of it is named, in steps of a tenth; most+1 if
// all do not suffice.
func (b *bench) rounds(t *testing.T, transfers []Transfer, most int, cable int32) int {
	t.Helper()
	for n := 6; ; n += max(1, n/10) {
		n = min(n, most)
		r, err := slowest(slices.DeleteFunc(slices.Clone(transfers), func(x Transfer) bool { return int(x.Phase) >= n }), b.parts)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(r.Slow, func(s api.SlowPart) bool {
			return slices.ContainsFunc(b.parts, func(p Part) bool { return p.Name == s.Name && p.Cable == cable })
		}) {
			return n
		}
		if n == most {
			return most + 1
		}
	}
}

// TestPairwise slows a link or a cable of FT(2;6,6), and with FORS_LONG=1 of FT(2;20,18) as well. It compares how many
// phases of the plan name it with how many rounds of pairwise tests do, judged by the same
// search with the same noise: where pairs that share a link do not slow each other, as if
// tables were made for each round, and where they do.
func TestPairwise(t *testing.T) {
	specs, draws := []fabgen.Spec{{Spines: 6, Leaves: 6}}, 30
	if os.Getenv("FORS_LONG") != "" {
		specs = append(specs, fabgen.Spec{Spines: 20, Leaves: 18})
	}
	for _, spec := range specs {
		f := fabgen.Generate(spec)
		tables, err := lft.Build(fabgen.Fitted(t, f))
		if err != nil {
			t.Fatal(err)
		}
		hosts := f.ConnectedHosts()
		for _, by := range []float64{.15, .5} {
			b := newBench(t, f, tables, 8)
			exchange, most := b.transfers, 8*(len(hosts)-1)
			rng := rand.New(rand.NewPCG(9, 1))
			var taken [3][]float64 // by the plan, pairwise, and pairwise with shared links
			for range draws {
				p := &b.parts[rng.IntN(len(b.parts))]
				for p.Cable < 0 {
					p = &b.parts[rng.IntN(len(b.parts))]
				}
				slow := make([]float64, b.all)
				for _, l := range p.Links {
					slow[l] = by
				}
				for i := range taken {
					var share []float64
					if b.transfers = slices.Clone(exchange); i > 0 {
						b.transfers, share = b.pairs(t, tables, hosts, rng, most, i > 1)
					}
					b.measure(rng, slow, .1)
					for k := range share {
						b.transfers[k].Took *= share[k]
					}
					taken[i] = append(taken[i], float64(b.rounds(t, b.transfers, most, p.Cable)))
				}
			}
			m := [3]float64{}
			for i := range taken {
				m[i] = median(taken[i])
			}
			t.Logf("FT(2;%d,%d), %.0f %% slower: half of the parts are named after %.0f phases of the plan, %.0f rounds of pairs, %.0f rounds of pairs that share links", spec.Spines, spec.Leaves, 100*by, m[0], m[1], m[2])
			if m[0] > m[1] || m[1] > m[2] || math.IsNaN(m[0]) {
				t.Errorf("rounds until half are named: %v", m)
			}
		}
	}
}
