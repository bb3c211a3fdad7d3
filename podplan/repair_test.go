package podplan_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestRepair mends plans after one more cable, and holds how little changes: of the units,
// those that must, and of the tables' blocks few. The repaired plan is verified by Repair.
func TestRepair(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	k := 8
	if os.Getenv("FORS_LONG") != "" {
		k = 16
	}
	for _, lmc := range []uint8{0, 2} {
		s := fabgen.KAry(k)
		s.LMC = lmc
		fail := s.Draw(rng, fabgen.Damage{LeafCables: 3, TopCables: 3})
		for _, before := range [][]string{nil, {fail[0], fail[3]}} {
			r := made(t, fitted(t, s, before...))
			for _, one := range []string{fail[1], fail[4], fail[2], fail[5]} {
				if pods.Unreachable(podplan.Shape(fitted(t, s, append(before, one)...))) != nil {
					continue
				}
				again, err := r.Repair(context.Background(), fitted(t, s, append(before, one)...))
				if err != nil {
					t.Fatal(err)
				}
				d := lft.Changes(r.Tables, again.Tables)
				blocks := 0
				for i := range r.Tables.Switches {
					blocks += (len(r.Tables.Switches[i].Out) + lft.Block - 1) / lft.Block
				}
				least := leastBlocks(again.Tree, r.Tables)
				t.Logf("LMC %d, %v, then %s: %d phases, then %d, bound %d; %d of %d blocks, at least %d, %d entries; planning took %v", lmc, before, one, r.Plan.Phases(), again.Plan.Phases(),
					again.Plan.LowerBound, d.Blocks, blocks, least, d.Entries, again.Times.Plan)
				// On a whole tree a cable of a leaf takes no block more than any repair must
				// change, and of 1024 hosts with four LIDs each a cable to a top takes a
				// hundredth of the blocks.
				most := blocks / 3
				switch isLeaf := strings.HasPrefix(one, "Leaf"); {
				case before == nil && isLeaf:
					most = least
				case before == nil && k == 16 && lmc == 2:
					most = blocks / 100
				}
				if d.Blocks > most {
					t.Errorf("LMC %d, %v, then %s: %d of %d blocks of tables change", lmc, before, one, d.Blocks, blocks)
				}
			}
		}
	}
}

// leastBlocks is how many blocks of tables no repair can leave as they are, as long as every
// way goes up and then down: those with an entry that leads over a dead cable, or to a switch
// without a way on.
func leastBlocks(t *topology.PodTree, tables *lft.Tables) (blocks int) {
	f := t.Fabric
	type state struct {
		node int32
		down bool // only ways down are left
	}
	// on tells from which states a leaf is reached.
	on := func(leaf int32) map[state]bool {
		reached := map[state]bool{{leaf, false}: true, {leaf, true}: true}
		queue := []state{{leaf, true}, {leaf, false}}
		for len(queue) > 0 {
			to := queue[0]
			queue = queue[1:]
			for p := range f.Nodes[to.node].Ports {
				port := &f.Nodes[to.node].Ports[p]
				if p == 0 || !port.Up() || f.Nodes[port.Peer].Kind != topology.Switch {
					continue
				}
				from := port.Peer
				next := []state{{from, false}} // up to a state from which any way is left
				if t.Rank[from] > t.Rank[to.node] {
					if next = []state{{from, true}, {from, false}}; !to.down {
						continue // what goes down goes on down
					}
				} else if to.down {
					continue
				}
				for _, s := range next {
					if !reached[s] {
						reached[s] = true
						queue = append(queue, s)
					}
				}
			}
		}
		return reached
	}
	reach := map[int32]map[state]bool{} // [node]
	home := map[int]int32{}             // [LID]
	for _, h := range t.Hosts {
		for lid := int(h.LID); lid < int(h.LID)+1<<h.LMC; lid++ {
			home[lid] = t.Leaves[h.Leaf].Node
		}
	}
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			home[int(f.Nodes[i].LID())] = int32(i)
		}
	}
	for i := range tables.Switches {
		node, out := f.Find(tables.Switches[i].GUID), tables.Switches[i].Out
		marked := map[int]bool{}
		for lid, to := range home {
			if reach[to] == nil {
				reach[to] = on(to)
			}
			if node == to || out[lid] == lft.NoPath {
				continue
			}
			p := &f.Nodes[node].Ports[out[lid]]
			if !p.Up() || !reach[to][state{p.Peer, t.Rank[p.Peer] < t.Rank[node]}] {
				marked[lid/lft.Block] = true
			}
		}
		blocks += len(marked)
	}
	return blocks
}
