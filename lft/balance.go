package lft

import "github.com/forsd/forsd/topology"

// Exchange follows the traffic of a concurrent exchange of all hosts by base LIDs, host by
// host and sending switch by sending switch, and calls each with these, the number of
// packets, and the switch ports that they leave by. lost is the switch at which packets are
// lost, None for those that arrive. way is only valid during the call.
func (t *Tables) Exchange(f *topology.Fabric, hosts []topology.EndPort, each func(from int32, to, n int, way []topology.PortRef, lost int32)) {
	out := make([][]uint8, len(f.Nodes))
	for i := range f.Nodes {
		if s := t.Find(f.Nodes[i].GUID); s >= 0 && f.Nodes[i].Kind == topology.Switch {
			out[i] = t.Switches[s].Out
		}
	}
	senders := make([]int, len(f.Nodes)) // [switch] hosts
	var leaves []int32
	for i := range hosts {
		leaf := f.At(hosts[i].PortRef).Peer
		if senders[leaf]++; senders[leaf] == 1 {
			leaves = append(leaves, leaf)
		}
	}
	var way []topology.PortRef
	for d := range hosts {
		home := f.At(hosts[d].PortRef)
		last := topology.PortRef{Node: home.Peer, Port: home.PeerPort}
		for _, leaf := range leaves {
			n, at := senders[leaf], leaf
			if leaf == home.Peer {
				n--
			}
			if n == 0 {
				continue
			}
			for way = way[:0]; at != topology.None && len(way) < len(f.Nodes); {
				lid, here := int(hosts[d].LID), topology.PortRef{Node: at, Port: NoPath}
				if lid < len(out[at]) {
					here.Port = out[at][lid]
				}
				if int(here.Port) >= len(f.Nodes[at].Ports) || !f.At(here).Up() || here != last && f.Nodes[f.At(here).Peer].Kind != topology.Switch {
					break
				}
				if way, at = append(way, here), f.At(here).Peer; here == last {
					at = topology.None
				}
			}
			each(leaf, d, n, way, at)
		}
	}
}

// Busiest is a directed cable with its number of transfers.
type Busiest struct {
	Transfers int
	From      topology.PortRef // the switch port that they leave by
}

// Busiest finds the cable with the most transfers if every server of the tree sends to the
// base LID of every other one at once. Lost packets count on the cables that they pass.
func (t *Tables) Busiest(tree *topology.FatTree) (most Busiest) {
	f := tree.Fabric
	first, ports := make([]int, len(f.Nodes)), 0 // [node] of its ports in load
	for i := range f.Nodes {
		first[i], ports = ports, ports+len(f.Nodes[i].Ports)
	}
	load := make([]int, ports)
	for _, hosts := range tree.ByExchange() {
		t.Exchange(f, hosts, func(_ int32, _, n int, way []topology.PortRef, _ int32) {
			for _, p := range way {
				i := first[p.Node] + int(p.Port)
				if load[i] += n; load[i] > most.Transfers {
					most = Busiest{load[i], p}
				}
			}
		})
	}
	return most
}
