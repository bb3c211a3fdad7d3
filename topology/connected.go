package topology

import "slices"

// ConnectedHosts lists the host ports that can take part in an exchange: those of adapters
// that take part by their role, with a cable that is up and with a LID. They are in the order
// of their switches, ascending by GUID, and of the switches' ports.
func (f *Fabric) ConnectedHosts() []EndPort {
	var hosts []EndPort
	for _, e := range f.EndPorts() {
		if f.Nodes[e.Node].Role.TakesPart() && e.LID != 0 && f.At(e.PortRef).Up() {
			hosts = append(hosts, e)
		}
	}
	slices.SortStableFunc(hosts, func(a, b EndPort) int {
		pa, pb := f.At(a.PortRef), f.At(b.PortRef)
		if pa.Peer != pb.Peer {
			return int(pa.Peer) - int(pb.Peer)
		}
		return int(pa.PeerPort) - int(pb.PeerPort)
	})
	return hosts
}
