package fabgen

import (
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Dragonfly builds groups of routers that are joined to each other within a group,
// and one cable between every two groups: with g ≤ a·h+1 groups of a routers, where
// a router has h cables out of its group. Routers are Router000… group by group,
// with the hosts Hca0000… on their first ports, then the cables within the group,
// then those out of it. LMC is 0.
func Dragonfly(groups, routers, hosts int) *topology.Fabric {
	global := (groups - 1 + routers - 1) / routers // cables out of the group, for each router
	f := &topology.Fabric{}
	for r := range groups * routers {
		f.Nodes = append(f.Nodes, newSwitch(LeafGUID+ib.GUID(r), fmt.Sprintf("Router%03d", r), hosts+routers-1+global))
	}
	at := func(group, router, port int) topology.PortRef {
		return topology.PortRef{Node: int32(group*routers + router), Port: uint8(port)}
	}
	for g := range groups {
		for a := range routers {
			for b := range a { // router a's port to b comes after the hosts, b's to a one place on
				f.Connect(at(g, a, hosts+1+b), at(g, b, hosts+a), rate)
			}
		}
		for other := range g { // the cables of a group go to the others in ascending order
			there, here := g-1, other
			f.Connect(at(g, here/global, hosts+routers+here%global), at(other, there/global, hosts+routers+there%global), rate)
		}
	}
	return withHosts(f, hosts)
}

// Torus builds a two-dimensional torus of switches, Switch000… row by row, with the
// hosts Hca0000… on their first ports and then the cables in the directions +x, −x,
// +y and −y. LMC is 0. Both sides are at least 3.
func Torus(x, y, hosts int) *topology.Fabric {
	f := &topology.Fabric{}
	for s := range x * y {
		f.Nodes = append(f.Nodes, newSwitch(LeafGUID+ib.GUID(s), fmt.Sprintf("Switch%03d", s), hosts+4))
	}
	at := func(i, j, port int) topology.PortRef {
		return topology.PortRef{Node: int32(j%y*x + i%x), Port: uint8(hosts + port)}
	}
	for j := range y {
		for i := range x {
			f.Connect(at(i, j, 1), at(i+1, j, 2), rate)
			f.Connect(at(i, j, 3), at(i, j+1, 4), rate)
		}
	}
	return withHosts(f, hosts)
}

var rate = ib.Rate{Width: 4, Speed: ib.HDR}

// withHosts puts hosts on the first ports of every switch, and gives LIDs.
func withHosts(f *topology.Fabric, hosts int) *topology.Fabric {
	for s := range len(f.Nodes) {
		for h := range hosts {
			addHost(f, s*hosts+h, topology.PortRef{Node: int32(s), Port: uint8(h + 1)}, rate)
		}
	}
	return finished(f, 0)
}
