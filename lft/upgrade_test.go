package lft

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestUpgrade checks that tables are those of the previous version, on whole and damaged
// fabrics of two and three levels. If they differ, an upgrade moves entries of fabrics in
// use, under running jobs. To move them on purpose, rewrite the file with -update.
func TestUpgrade(t *testing.T) {
	var got strings.Builder
	note := func(name string, tables *Tables) {
		fmt.Fprintf(&got, "%s %d %x\n", name, len(tables.Switches), sha256.Sum256(fmt.Append(nil, tables.Switches)))
	}
	drawn := rapid.Custom(func(r *rapid.T) *topology.FatTree {
		ft := drawTree(r)
		hold(r, ft)
		return ft
	})
	for i := range 150 {
		note(fmt.Sprint("two ", i), build(t, drawn.Example(i)))
	}
	for seed := range uint64(200) {
		if ft := worn(t, seed); ft != nil {
			note(fmt.Sprint("worn ", seed), build(t, ft))
		}
	}
	for seed := range uint64(6) { // more spines than a word has bits
		rng := rand.New(rand.NewPCG(seed, 8))
		note(fmt.Sprint("wide ", seed), build(t, tree(t, fabgen.Generate(fabgen.Spec{Spines: 64 + int(seed), Leaves: 4, LMC: uint8(seed)}), func(f *topology.Fabric) {
			for _, c := range cables(f) {
				if rng.IntN(100) < 40+10*int(seed) {
					f.Disconnect(c)
				}
			}
		})))
	}
	for i, s := range []fabgen.TreeSpec{
		fabgen.KAry(4), fabgen.KAry(6),
		{Pods: 3, Leaves: 3, Mids: 2, Tops: 3, Hosts: 4, LeafCables: 2, TopCables: 2, LMC: 2},
		{Pods: 4, Leaves: 2, Mids: 4, Tops: 2, Hosts: 4, Shared: 2, LMC: 1},
		{Pods: 3, Leaves: 4, Mids: 3, Tops: 2, Hosts: 6, Missing: [][2]int{{0, 1}, {5, 0}}, LMC: 3},
	} {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		f := fabgen.GenerateTree(s)
		base, err := topology.NewPodBaseline(f)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 5 {
			g := f.Clone()
			for _, spec := range s.Draw(rng, fabgen.Damage{LeafCables: 2 * round, TopCables: 2 * round, Mids: round / 3, Tops: round / 3}) {
				_, _ = g.Fail(spec) // what hangs on a mid may be gone already
			}
			for n := range g.Nodes {
				for _, p := range g.Trunks(int32(n)) {
					if round%2 == 1 && rng.IntN(8) == 0 {
						slow(g, topology.PortRef{Node: int32(n), Port: p})
					}
				}
			}
			tree, err := topology.FitPods(g, base, nil)
			if err != nil {
				t.Fatal(err)
			}
			tables, err := BuildPods(t.Context(), tree, nil)
			if err != nil {
				t.Fatal(err)
			}
			note(fmt.Sprint("three ", i, " ", round), tables)
		}
	}
	const file = "testdata/upgrade.golden"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("tables of another version (-%s +now):\n%s", file, diff)
	}
}
