package describe

import (
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/topology"
)

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
