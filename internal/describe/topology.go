// Package describe has fabrics in the form of the API.
package describe

import (
	"cmp"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

var cableStates = map[topology.CableState]string{
	topology.NoCable: "none", topology.Missing: "missing", topology.Degraded: "degraded", topology.Full: "full"}

// Topology describes a fat tree; the spines of one of three levels are its tops.
func Topology(t *topology.FatTree, seenAt time.Time) *api.Topology {
	out := &api.Topology{Hash: t.Fabric.Hash(), SeenAt: seenAt, Lanes: t.Lanes, Servers: len(t.Servers),
		Bystanders: len(t.Hosts) - len(t.Servers), Findings: Findings(t.Findings),
		Leaves: make([]api.Leaf, len(t.Leaves)), Spines: []api.Spine{}, Hosts: []api.Host{},
		Roles: roles(t.Fabric), Uncovered: uncovered(t)}
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		out.Leaves[l] = api.Leaf{GUID: leaf.GUID, Name: leaf.Name, Present: leaf.Node != topology.None, LID: switchLID(t.Fabric, leaf.Node)}
		out.Leaves[l].Cables, out.Leaves[l].LanesUp = states(leaf.Cables)
	}
	if t.Pods != nil {
		addPods(out, t.Pods)
		addHosts(out, t, func(h *topology.Host) string { return t.Fabric.Nodes[h.Spine].Label() })
		return out
	}
	for i := range t.Spines {
		s := &t.Spines[i]
		out.Spines = append(out.Spines, api.Spine{GUID: s.GUID, Name: s.Name, Present: s.Node != topology.None, LID: switchLID(t.Fabric, s.Node), FirstLane: s.First, Lanes: s.Cables})
	}
	addHosts(out, t, func(h *topology.Host) string { return cmp.Or(t.Spines[h.Spine].Name, t.Spines[h.Spine].GUID.String()) })
	return out
}

// states names the states of cables, and counts those that are up.
func states(cables []topology.Cable) (words []string, up int) {
	for _, c := range cables {
		words = append(words, cableStates[c.State])
		if c.State == topology.Full {
			up++
		}
	}
	return words, up
}

// addPods adds what only a fat tree of three levels has.
func addPods(out *api.Topology, t *topology.PodTree) {
	out.Pods, out.Planes, out.Lanes, out.Findings = t.Pods, t.Planes, len(t.Lanes), Findings(t.Findings)
	for l := range t.Leaves {
		leaf := &out.Leaves[l]
		leaf.Pod = t.Leaves[l].Pod
		leaf.Cables, leaf.LanesUp = states(t.Leaves[l].Cables)
	}
	for i := range t.Mids {
		m := &t.Mids[i]
		if m.GUID == 0 {
			continue // its pod never had it
		}
		first, end := t.LanesOf(i)
		mid := api.Mid{GUID: m.GUID, Name: m.Name, Present: m.Node != topology.None, LID: switchLID(t.Fabric, m.Node), Pod: m.Pod, FirstLane: first}
		mid.Cables, mid.LanesUp = states(m.Cables[first:end])
		out.Mids = append(out.Mids, mid)
	}
	for k := range t.Tops {
		out.Spines = append(out.Spines, api.Spine{GUID: t.Tops[k].GUID, Name: t.Tops[k].Name, Present: t.Tops[k].Node != topology.None, LID: switchLID(t.Fabric, t.Tops[k].Node)})
	}
	for k := len(t.Lanes) - 1; k >= 0; k-- {
		s := &out.Spines[t.Lanes[k].Top]
		s.FirstLane = k
		s.Lanes++
	}
}

// addHosts adds the host ports, those that are routed and nothing else at the end. upper
// names the switch of one that is not on a leaf.
func addHosts(out *api.Topology, t *topology.FatTree, upper func(*topology.Host) string) {
	for i := range t.Hosts {
		h := &t.Hosts[i]
		out.Hosts = append(out.Hosts, newHost(out, h, upper))
		if h.Server {
			out.Leaves[h.Leaf].Servers++
		}
	}
	for i := range t.Routed {
		h := newHost(out, &t.Routed[i], upper)
		h.Alpha = 0
		out.Hosts = append(out.Hosts, h)
	}
}

func newHost(out *api.Topology, h *topology.Host, upper func(*topology.Host) string) api.Host {
	x := api.Host{GUID: h.GUID, Name: h.Name, LID: h.LID, LMC: h.LMC, Alpha: h.Alpha, Server: h.Server, Role: h.Role.String()}
	if h.Leaf >= 0 {
		x.Leaf = cmp.Or(out.Leaves[h.Leaf].Name, out.Leaves[h.Leaf].GUID.String())
	} else if h.Spine >= 0 {
		x.Spine = upper(h)
	}
	return x
}

// roles counts the host ports with a cable by role.
func roles(f *topology.Fabric) map[string]int {
	out := map[string]int{}
	for _, e := range f.EndPorts() {
		if n := &f.Nodes[e.Node]; n.Kind != topology.Switch && f.At(e.PortRef).Up() {
			out[n.Role.String()]++
		}
	}
	return out
}

// uncovered lists what the tree does not cover.
func uncovered(t *topology.FatTree) []api.Uncovered {
	out := []api.Uncovered{}
	f := t.Fabric
	for _, i := range t.Uncovered.Switches {
		out = append(out, api.Uncovered{Kind: "switch", GUID: f.Nodes[i].GUID, Name: f.Nodes[i].Name})
	}
	for _, h := range t.Uncovered.Hosts {
		out = append(out, api.Uncovered{Kind: "host", GUID: f.At(h.PortRef).GUID, Name: f.PortLabel(h.PortRef), Why: h.Why})
	}
	for _, r := range t.Uncovered.Cables {
		out = append(out, api.Uncovered{Kind: "cable", GUID: f.Nodes[r.Node].GUID, Name: f.CableLabel(r)})
	}
	return out
}

// switchLID returns the switch's own LID, 0 while it is absent.
func switchLID(f *topology.Fabric, node int32) ib.LID {
	if node == topology.None {
		return 0
	}
	return f.Nodes[node].LID()
}

// Findings are deviations without the ports that they are about.
func Findings(found []topology.Finding) []api.Finding {
	out := make([]api.Finding, len(found))
	for i, f := range found {
		out[i] = api.Finding{Code: f.Code, Text: f.Text}
	}
	return out
}

// Cabling lists the cables of a fabric.
func Cabling(f *topology.Fabric, seenAt time.Time) *api.Cabling {
	out := &api.Cabling{SeenAt: seenAt, Links: []api.Link{}}
	end := func(node int32, port uint8) api.LinkEnd {
		n := &f.Nodes[node]
		e := api.LinkEnd{GUID: n.GUID, Name: n.Name, Port: port}
		if n.Kind != topology.Switch {
			e.Host = n.Ports[port].GUID
		}
		return e
	}
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if !port.Up() || !f.Nodes[port.Peer].Ports[port.PeerPort].Up() || port.Peer < int32(i) || port.Peer == int32(i) && int(port.PeerPort) < p {
				continue
			}
			out.Links = append(out.Links, api.Link{A: end(int32(i), uint8(p)), B: end(port.Peer, port.PeerPort), Rate: port.Rate.String()})
		}
	}
	return out
}
