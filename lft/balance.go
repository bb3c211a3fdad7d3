package lft

import "github.com/forsd/forsd/topology"

// Busiest is a directed cable with its transfers.
type Busiest struct {
	Transfers int
	From      topology.PortRef // the switch port that they leave by
}

// Busiest finds the cable that carries most if every server of the tree sends to the base
// LID of every other one at once, those of servers among them. What the tables lose counts
// on the cables that it passes.
func (t *Tables) Busiest(tree *topology.FatTree) (most Busiest) {
	f := tree.Fabric
	first, ports := make([]int, len(f.Nodes)), 0 // [node] of its ports in load
	out := make([][]uint8, len(f.Nodes))
	for i := range f.Nodes {
		n := &f.Nodes[i]
		first[i], ports = ports, ports+len(n.Ports)
		if s := t.Find(n.GUID); s >= 0 && n.Kind == topology.Switch {
			out[i] = t.Switches[s].Out
		}
	}
	load := make([]int, ports)
	senders := make([]int, len(f.Nodes)) // [switch] servers
	var leaves []int32
	for _, i := range tree.Servers {
		at := tree.Hosts[i].At.Node
		if senders[at]++; senders[at] == 1 {
			leaves = append(leaves, at)
		}
	}
	for _, leaf := range leaves {
		for _, i := range tree.Servers {
			h := &tree.Hosts[i]
			weight := senders[leaf]
			if h.At.Node == leaf {
				weight--
			}
			for at, hops := leaf, 0; hops < len(t.Switches) && int(h.LID) < len(out[at]); hops++ {
				p := out[at][h.LID]
				if int(p) >= len(f.Nodes[at].Ports) || !f.Nodes[at].Ports[p].Up() {
					break
				}
				i := first[at] + int(p)
				if load[i] += weight; load[i] > most.Transfers {
					most = Busiest{load[i], topology.PortRef{Node: at, Port: p}}
				}
				at = f.Nodes[at].Ports[p].Peer
			}
		}
	}
	return most
}
