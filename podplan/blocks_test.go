package podplan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestRepairBlocks holds that the plan at once of the 16-ary tree after one cable of any kind
// changes at most a hundredth of the blocks at LMC 2, with LIDs as generated, in order of
// discovery, and leaf by leaf. Shuffled LIDs keep to that for cables of leaves; the hosts of
// a pod are then in so many blocks that a cable to a top takes more.
func TestRepairBlocks(t *testing.T) {
	step := 683 // of the 2048 cables
	if os.Getenv("FORS_LONG") != "" {
		step = 1
	}
	s := fabgen.KAry(16)
	s.LMC = 2
	for n, order := range []string{"as generated", "by discovery", "leaf by leaf", "shuffled"} {
		f := fabgen.GenerateTree(s)
		if n > 0 {
			renumber(f, order)
		}
		f, err := topology.NewFabric(f.Nodes, f.SM)
		if err != nil {
			t.Fatal(err)
		}
		base, err := topology.NewPodBaseline(f)
		if err != nil {
			t.Fatal(err)
		}
		fit := func(fail ...string) *topology.PodTree {
			g := f.Clone()
			for _, spec := range fail {
				if _, err := g.Fail(spec); err != nil {
					t.Fatal(err)
				}
			}
			tree, err := topology.FitPods(g, base, nil)
			if err != nil {
				t.Fatal(err)
			}
			return tree
		}
		whole := made(t, fit())
		blocks, most, phases := whole.Tables.Blocks(), map[string]int{}, 0
		for i := n; i < 2048; i += step {
			kind, spec := "Leaf", fmt.Sprintf("Leaf%03d/%d", i/16, 9+i/2%8)
			if i%2 == 1 {
				kind, spec = "Mid", fmt.Sprintf("Mid%03d/%d", i/16, 9+i/2%8)
			}
			again, err := podplan.Make(context.Background(), fit(spec), podplan.Settings{AtOnce: true})
			if err != nil {
				t.Fatal(err)
			}
			d := lft.Changes(whole.Tables, again.Tables).Blocks
			most[kind], phases = max(most[kind], d), max(phases, again.Plan.Phases())
			if 100*d > blocks && (kind == "Leaf" || order != "shuffled") {
				t.Errorf("LIDs %s, %s: %d of %d blocks of tables change", order, spec, d, blocks)
			}
		}
		t.Logf("LIDs %s: at most %v of %d blocks, and %d phases", order, most, blocks, phases)
	}
}

// renumber gives all ports other LIDs: each the lowest that are free and aligned, in order of
// discovery from a leaf, leaf by leaf with the hosts after each switch, or shuffled.
func renumber(f *topology.Fabric, order string) {
	queue := []int32{f.Find(fabgen.LeafGUID)}
	if order != "by discovery" {
		queue = queue[:0]
		for i := range f.Nodes {
			if f.Nodes[i].Kind == topology.Switch {
				queue = append(queue, int32(i))
			}
		}
	}
	var ports []*topology.Port
	seen := map[int32]bool{}
	for _, i := range queue {
		seen[i] = true
	}
	for at := 0; at < len(queue); at++ {
		ports = append(ports, &f.Nodes[queue[at]].Ports[0])
		for p := range f.Nodes[queue[at]].Ports {
			port := &f.Nodes[queue[at]].Ports[p]
			switch {
			case p == 0 || !port.Up() || seen[port.Peer]:
			case f.Nodes[port.Peer].Kind == topology.Switch:
				seen[port.Peer] = true
				queue = append(queue, port.Peer)
			default:
				ports = append(ports, &f.Nodes[port.Peer].Ports[port.PeerPort])
			}
		}
	}
	if order == "shuffled" {
		rand.New(rand.NewPCG(9, 9)).Shuffle(len(ports), func(a, b int) { ports[a], ports[b] = ports[b], ports[a] })
	}
	used := map[ib.LID]bool{}
	for _, port := range ports {
		n := ib.LID(1) << port.LMC
		port.LID = n
		for used[port.LID] || used[port.LID+n-1] {
			port.LID += n
		}
		for lid := port.LID; lid < port.LID+n; lid++ {
			used[lid] = true
		}
	}
}

// leastBlocks is how many blocks of tables no repair can leave as they are, as long as every
// way of a plan goes up and then down: those with an entry that leads over a dead cable, and
// at leaves those with one to a switch without a way on. Other switches may relay.
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
		isLeaf := slices.ContainsFunc(t.Leaves, func(l topology.PodLeaf) bool { return l.Node == node })
		marked := map[int]bool{}
		for lid, to := range home {
			if reach[to] == nil {
				reach[to] = on(to)
			}
			if node == to || out[lid] == lft.NoPath {
				continue
			}
			p := &f.Nodes[node].Ports[out[lid]]
			if !p.Up() || isLeaf && !reach[to][state{p.Peer, t.Rank[p.Peer] < t.Rank[node]}] {
				marked[lid/lft.Block] = true
			}
		}
		blocks += len(marked)
	}
	return blocks
}
