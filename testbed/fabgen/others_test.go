package fabgen

import (
	"testing"

	"github.com/forsd/forsd/topology"
)

// distances is the number of cables between switch a and each node.
func distances(f *topology.Fabric, a int32) map[int32]int {
	at := map[int32]int{a: 0}
	for queue := []int32{a}; len(queue) > 0; queue = queue[1:] {
		n := &f.Nodes[queue[0]]
		for p := range n.Ports {
			if _, known := at[n.Ports[p].Peer]; !known && n.Ports[p].Connected() {
				at[n.Ports[p].Peer] = at[queue[0]] + 1
				queue = append(queue, n.Ports[p].Peer)
			}
		}
	}
	return at
}

// TestOtherShapes counts cables and distances.
func TestOtherShapes(t *testing.T) {
	for _, c := range []struct {
		name                              string
		f                                 *topology.Fabric
		switches, hosts, cables, diameter int
	}{
		{"dragonfly of 9 groups", Dragonfly(9, 4, 2), 36, 72, 72 + 9*6 + 36, 3},
		{"dragonfly of 4 groups", Dragonfly(4, 3, 1), 12, 12, 12 + 4*3 + 6, 3},
		{"torus 6×6", Torus(6, 6, 2), 36, 72, 72 + 72, 6},
		{"torus 3×5", Torus(3, 5, 1), 15, 15, 15 + 30, 3},
	} {
		switches, hosts, ends, diameter := 0, 0, 0, 0
		for i := range c.f.Nodes {
			n := &c.f.Nodes[i]
			for p := range n.Ports {
				if n.Ports[p].Connected() {
					ends++
				}
			}
			if n.Kind != topology.Switch {
				hosts++
				continue
			}
			switches++
			for to, d := range distances(c.f, int32(i)) {
				if c.f.Nodes[to].Kind == topology.Switch {
					diameter = max(diameter, d)
				}
			}
		}
		if switches != c.switches || hosts != c.hosts || ends != 2*c.cables || diameter != c.diameter {
			t.Errorf("%s: %d switches, %d hosts, %d cables, %d apart; want %d, %d, %d, %d", c.name, switches, hosts, ends/2, diameter,
				c.switches, c.hosts, c.cables, c.diameter)
		}
	}
}
