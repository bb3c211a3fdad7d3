package lft

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// journey is one call of Exchange.
type journey struct {
	From int32
	To   int
	N    int
	Way  []topology.PortRef
	Lost int32
}

// journeys follows every packet of an exchange by hand, from each host to each other one.
func journeys(f *topology.Fabric, tables *Tables, hosts []topology.EndPort) (all []journey) {
	table := newWalker(f, tables).table
	for to := range hosts {
		at := map[int32]int{} // [leaf] its place in all
		for from := range hosts {
			if from == to {
				continue
			}
			leaf := f.At(hosts[from].PortRef).Peer
			if i, known := at[leaf]; known {
				all[i].N++
				continue
			}
			j := journey{From: leaf, To: to, N: 1, Lost: leaf}
			for len(j.Way) < len(f.Nodes) && j.Lost != topology.None {
				out := table[f.Nodes[j.Lost].GUID]
				if int(hosts[to].LID) >= len(out) {
					break
				}
				port := int(out[hosts[to].LID])
				if port == int(NoPath) || port >= len(f.Nodes[j.Lost].Ports) {
					break
				}
				p := &f.Nodes[j.Lost].Ports[port]
				there := p.Up() && (topology.PortRef{Node: p.Peer, Port: p.PeerPort}) == hosts[to].PortRef
				if !p.Up() || !there && f.Nodes[p.Peer].Kind != topology.Switch {
					break
				}
				j.Way = append(j.Way, topology.PortRef{Node: j.Lost, Port: uint8(port)})
				if j.Lost = p.Peer; there {
					j.Lost = topology.None
				}
			}
			at[leaf] = len(all)
			all = append(all, j)
		}
	}
	return all
}

// TestExchange follows exchanges over tables that are whole, and over tables with entries
// that are missing, wrong, lead in a loop, to another host or to a port that the switch does
// not have, that are cut off, or that lack a switch.
func TestExchange(t *testing.T) {
	for seed := range uint64(60) {
		ft := worn(t, seed)
		if ft == nil {
			continue
		}
		f, tables, rng := ft.Fabric, build(t, ft), rand.New(rand.NewPCG(seed, 9))
		switch seed % 4 {
		case 1:
			for i := range tables.Switches {
				for range 3 {
					out := tables.Switches[i].Out
					ports := len(f.Nodes[f.Find(tables.Switches[i].GUID)].Ports)
					out[rng.IntN(len(out))] = append([]uint8{NoPath}, uint8(ports))[rng.IntN(2)]
					out[rng.IntN(len(out))] = uint8(rng.IntN(ports))
				}
			}
		case 2:
			i := rng.IntN(len(tables.Switches))
			tables.Switches[i].Out = tables.Switches[i].Out[:ft.Hosts[ft.Servers[rng.IntN(len(ft.Servers))]].LID]
		case 3:
			tables.Switches = slices.Delete(tables.Switches, 1, 2)
		}
		hosts := make([]topology.EndPort, len(ft.Servers))
		for s, i := range ft.Servers {
			hosts[s] = ft.Hosts[i].EndPort
		}
		want, busiest := journeys(f, tables, hosts), 0
		var got []journey
		load := map[topology.PortRef]int{}
		tables.Exchange(f, hosts, func(from int32, to, n int, way []topology.PortRef, lost int32) {
			got = append(got, journey{from, to, n, append([]topology.PortRef(nil), way...), lost})
		})
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, d)
		}
		var first Busiest
		for _, j := range want {
			for _, p := range j.Way {
				if load[p] += j.N; load[p] > busiest {
					busiest, first = load[p], Busiest{load[p], p}
				}
			}
		}
		if most := tables.Busiest(ft); most != first {
			t.Errorf("seed %d: the busiest cable is %+v, want %+v", seed, most, first)
		}
	}
}

// TestLoop checks that traffic in a loop is lost, after as many cables as there are nodes.
func TestLoop(t *testing.T) {
	ft := tree(t, fabgen.Generate(fabgen.Spec{Spines: 1, Leaves: 2, Hosts: []int{1}}), nil)
	tables, far := build(t, ft), ft.Hosts[1]
	spine := tables.Find(ft.Spines[0].GUID)
	tables.Switches[spine].Out[far.LID] = ft.Leaves[0].Cables[0].SpinePort // back where it came from
	tables.Exchange(ft.Fabric, []topology.EndPort{ft.Hosts[0].EndPort, far.EndPort}, func(from int32, to, n int, way []topology.PortRef, lost int32) {
		if to == 1 && (len(way) != len(ft.Fabric.Nodes) || lost == topology.None || n != 1) {
			t.Errorf("%d packets from %d take %v and are lost at %d", n, from, way, lost)
		}
	})
}
