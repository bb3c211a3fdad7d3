package rankorder

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// walk uses sim to trace a ring and the steps of recursive doubling through the tables, and
// returns the largest number of transfers on a link. It has its own definition of the patterns,
// from MPICH's manual, and shares nothing with the package.
func walk(t *testing.T, f *topology.Fabric, tables *lft.Tables, ranks []topology.EndPort) (ring, doubling int) {
	t.Helper()
	n := len(ranks)
	row := func(phase, from, to int) sim.Row {
		return sim.Row{Phase: int32(phase), Src: ranks[from].GUID, Dst: ranks[to].GUID, DLID: ranks[to].LID}
	}
	power := 1
	for 2*power <= n {
		power *= 2
	}
	rest := n - power
	old := func(renamed int) int {
		if renamed < rest {
			return 2*renamed + 1
		}
		return renamed + rest
	}
	var rows []sim.Row
	for r := range n {
		rows = append(rows, row(0, r, (r+1)%n))
	}
	for r := range rest {
		rows = append(rows, row(1, 2*r, 2*r+1), row(2, 2*r+1, 2*r))
	}
	for phase, mask := 3, 1; mask < power; phase, mask = phase+1, mask*2 {
		for v := range power {
			rows = append(rows, row(phase, old(v), old(v^mask)))
		}
	}
	r, err := sim.Run(f, tables, rows)
	if err != nil {
		t.Fatal(err)
	}
	return r.PerPhaseMax[0], slices.Max(r.PerPhaseMax[1:])
}

// check orders n random hosts in random order, traces the order, and compares the result with
// the returned figures and the bounds. Recursive doubling may exceed its bound by gap.
func check(t *testing.T, f *topology.Fabric, tables *lft.Tables, n int, seed uint64, gap int) {
	t.Helper()
	hosts := f.ConnectedHosts()
	rand.New(rand.NewPCG(seed, uint64(n))).Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	hosts = hosts[:n]
	o, err := Find(t.Context(), f, tables, hosts, 1)
	if err != nil {
		t.Fatal(err)
	}
	given := slices.Sorted(slices.Values(o.Order))
	ranks := make([]topology.EndPort, n)
	for r, h := range o.Order {
		if given[r] != r {
			t.Fatalf("%d hosts: %v is not an order of them", n, o.Order)
		}
		ranks[r] = hosts[h]
	}
	ring, doubling := walk(t, f, tables, ranks)
	if ring != max(1, o.Ring) || doubling != max(1, o.Doubling) {
		t.Errorf("%d hosts: the walk finds %d on a ring and %d in a step, the order says %d and %d", n, ring, doubling, o.Ring, o.Doubling)
	}
	if ring != 1 || o.Ring != o.RingBound || o.Doubling < o.DoublingBound || o.Doubling > o.DoublingBound+gap {
		t.Errorf("%d hosts: ring %d (bound %d), recursive doubling %d (bound %d)", n, o.Ring, o.RingBound, o.Doubling, o.DoublingBound)
	}
}

// TestTwoLevels orders hosts of FT(2;20,18) with dead cables, on forsd's tables. In their given
// order, their rings put several transfers on a cable. FORS_LONG=1 tests more numbers of hosts.
func TestTwoLevels(t *testing.T) {
	sizes := []int{2, 24, 64, 100}
	if os.Getenv("FORS_LONG") != "" {
		sizes = append(sizes, 128, 200, 256, 300, 360)
	}
	for _, dead := range []int{0, 1, 9} {
		t.Run(fmt.Sprint(dead), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, uint64(dead)))
			var cables [][2]int
			for _, c := range rng.Perm(18 * 20)[:dead] {
				cables = append(cables, [2]int{c / 20, c % 20})
			}
			tree := fabgen.Damaged(t, fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}, cables...)
			made, err := planner.Make(t.Context(), tree, planner.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			random := tree.Fabric.ConnectedHosts()
			rng.Shuffle(len(random), func(i, j int) { random[i], random[j] = random[j], random[i] })
			if ring, doubling := walk(t, tree.Fabric, made.Tables, random); ring < 3 || doubling < 3 {
				t.Errorf("in random order: ring %d, recursive doubling %d", ring, doubling)
			}
			for _, n := range sizes {
				gap := 0
				if n > 100 {
					gap = 1 // the search does not always reach the bound
				}
				check(t, tree.Fabric, made.Tables, n, 1, gap)
			}
		})
	}
}

// TestThreeLevels orders hosts of a fat tree of three levels.
func TestThreeLevels(t *testing.T) {
	tree := fabgen.FittedPods(t, fabgen.GenerateTree(fabgen.TreeSpec{Pods: 4, Leaves: 3, Mids: 3, Tops: 3, Hosts: 3, LMC: 2}))
	made, err := podplan.Make(t.Context(), tree, podplan.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{9, 16, 24} {
		check(t, tree.Fabric, made.Tables, n, 2, 0)
	}
	if os.Getenv("FORS_LONG") != "" {
		check(t, tree.Fabric, made.Tables, 36, 2, 1) // it is not known whether all can do better
	}
}

// TestRanksPerHost checks that ranks of a host are consecutive, and that transfers within a
// host meet no others.
func TestRanksPerHost(t *testing.T) {
	tree := fabgen.Damaged(t, fabgen.Spec{Spines: 4, Leaves: 4, LMC: 3})
	tables, err := lft.Build(tree)
	if err != nil {
		t.Fatal(err)
	}
	hosts := tree.Fabric.ConnectedHosts()
	o, err := Find(t.Context(), tree.Fabric, tables, hosts, 4)
	if err != nil {
		t.Fatal(err)
	}
	if o.Ring != 1 || o.Doubling != o.DoublingBound || o.DoublingBound != 4 {
		t.Errorf("%+v", o)
	}
	again, err := Find(t.Context(), tree.Fabric, tables, hosts, 4)
	if err != nil || !slices.Equal(o.Order, again.Order) {
		t.Errorf("the same hosts in another order: %v, then %v (%v)", o.Order, again.Order, err)
	}
}

// TestRefusals checks that hosts that cannot be ordered are an error.
func TestRefusals(t *testing.T) {
	tree := fabgen.Fitted(t, fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2}))
	tables, err := lft.Build(tree)
	if err != nil {
		t.Fatal(err)
	}
	hosts := tree.Fabric.ConnectedHosts()
	if _, err := Find(t.Context(), tree.Fabric, tables, nil, 1); err == nil {
		t.Error("no hosts are ordered")
	}
	for i := range tables.Switches {
		clear(tables.Switches[i].Out)
	}
	if _, err := Find(t.Context(), tree.Fabric, tables, hosts, 1); err == nil || !strings.Contains(err.Error(), "order ranks") {
		t.Errorf("tables without entries: %v", err)
	}
}
