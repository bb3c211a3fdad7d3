package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// Of a railFabric.
const rails, hosts = 4, 6

// railFabric has hosts with an adapter on each leaf; name describes an adapter.
func railFabric(name func(host, rail int) string) *topology.Fabric {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: rails, Hosts: []int{hosts}})
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Kind == topology.Adapter {
			number := int(n.GUID-fabgen.HostGUID) / 2
			n.Name = name(number%hosts, number/hosts)
		}
	}
	return f
}

// TestRecognisedRails recognises rails by names, whatever counts the adapters, and by system image GUIDs;
// ports without names are in the rail of their leaf, and swapped cables are noted.
func TestRecognisedRails(t *testing.T) {
	kernel := func(h, r int) string { return fmt.Sprintf("node%d mlx5_%d", h, r) }
	for _, c := range []struct {
		name   string
		fabric func() *topology.Fabric
		names  []string
		notes  []string // parts of those after the first
		out    int      // servers in no rail
	}{
		{"kernel's names", func() *topology.Fabric { return railFabric(kernel) }, []string{"adapter 0", "adapter 1", "adapter 2", "adapter 3"}, nil, 0},
		{"two ways to count", func() *topology.Fabric {
			return railFabric(func(h, r int) string {
				if h < 2 {
					return fmt.Sprintf("node%d HCA-%d", h, r+1)
				}
				return kernel(h, r)
			})
		}, []string{"adapter 0", "adapter 1", "adapter 2", "adapter 3"}, nil, 0},
		{"names of network devices", func() *topology.Fabric {
			return railFabric(func(h, r int) string { return fmt.Sprintf("node%d ibp%ds0", h, 3+9*r) })
		}, []string{"ibp3s0", "ibp12s0", "ibp21s0", "ibp30s0"}, nil, 0},
		{"some without names", func() *topology.Fabric {
			return railFabric(func(h, r int) string {
				if h == 1 {
					return "MT4129 ConnectX7   Mellanox Technologies"
				}
				return kernel(h, r)
			})
		}, []string{"adapter 0", "adapter 1", "adapter 2", "adapter 3"}, []string{"in the rail of their leaf, because their descriptions name no adapter: 4"}, 0},
		{"swapped cables", func() *topology.Fabric {
			return railFabric(func(h, r int) string {
				if h == 3 && r < 2 {
					r = 1 - r
				}
				return kernel(h, r)
			})
		}, []string{"adapter 0", "adapter 1", "adapter 2", "adapter 3"}, []string{"on leaves of another rail, perhaps by swapped cables: node3 mlx5_1 on Leaf000, node3 mlx5_0 on Leaf001"}, 0},
		{"a manager's host", func() *topology.Fabric {
			return railFabric(func(h, r int) string {
				if h == 5 && r == 2 {
					return "manager mlx5_0"
				}
				return kernel(h, r)
			})
		}, []string{"adapter 0", "adapter 1", "adapter 2", "adapter 3"}, []string{"in no rail, and without a part in an exchange: manager mlx5_0"}, 1},
		{"system images", func() *topology.Fabric {
			f := railFabric(func(_, _ int) string { return "ConnectX7" })
			for i := range f.Nodes {
				if n := &f.Nodes[i]; n.Kind == topology.Adapter {
					n.System = 0x7000 + ib.GUID(int(n.GUID-fabgen.HostGUID)/2%hosts)
				}
			}
			return f
		}, []string{"place 0", "place 1", "place 2", "place 3"}, nil, 0},
	} {
		tree := fabgen.Fitted(t, c.fabric())
		x, notes, err := topology.Rails(tree)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if d := cmp.Diff(c.names, x.Names); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		if len(notes) != 1+len(c.notes) {
			t.Errorf("%s: notes %q", c.name, notes)
		}
		for _, want := range c.notes {
			if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, want) }) {
				t.Errorf("%s: notes %q, want %q", c.name, notes, want)
			}
		}
		divided := x.Divide(tree)
		if len(divided.Servers) != rails*hosts-c.out {
			t.Errorf("%s: %d servers", c.name, len(divided.Servers))
		}
		for _, i := range divided.Servers {
			if h := &divided.Hosts[i]; h.Exchange != h.Leaf && c.name != "swapped cables" {
				t.Errorf("%s: %s on leaf %d is in %s", c.name, h.Name, h.Leaf, x.Names[h.Exchange])
			}
		}
	}
}

// TestNoRails refuses fabrics without rails, and says why.
func TestNoRails(t *testing.T) {
	for name, want := range map[string]func(h, r int) string{
		"0 hosts have several adapters": func(h, r int) string { return fmt.Sprintf("node%d-%d mlx5_0", h, r) },
		"0 of 24 servers have":          func(_, _ int) string { return "ConnectX7" },
		"of 24 servers only 12 are in one": func(h, r int) string {
			if h < 3 {
				return fmt.Sprintf("login%d-%d mlx5_0", h, r)
			}
			return fmt.Sprintf("node%d mlx5_%d", h, r)
		},
	} {
		_, _, err := topology.Rails(fabgen.Fitted(t, railFabric(want)))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
}
