package topology_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// alphas maps host names to (leaf, α).
func alphas(ft *topology.FatTree) map[string][2]int {
	m := map[string][2]int{}
	for _, h := range ft.Hosts {
		m[h.Name] = [2]int{h.Leaf, h.Alpha}
	}
	return m
}

func TestSettleHosts(t *testing.T) {
	const leaf0, leaf1, host1, host4 = fabgen.LeafGUID, fabgen.LeafGUID + 1, fabgen.HostGUID + 2, fabgen.HostGUID + 8
	// FT(2;4,2): leaf 0 has hosts 0–3 in ports 1–4, leaf 1 hosts 4–6 in ports
	// 1–3; port 4 of leaf 1 is free.
	spec := fabgen.Spec{Spines: 4, Leaves: 2, Missing: [][2]int{{1, 3}}, LMC: 2}
	all := map[string][2]int{"Hca0000": {0, 0}, "Hca0001": {0, 1}, "Hca0002": {0, 2}, "Hca0003": {0, 3}, "Hca0004": {1, 0}, "Hca0005": {1, 1}, "Hca0006": {1, 2}}
	f := fabgen.Generate(spec)
	b := baselineOf(t, f)
	found(t, fitted(t, f, b))
	if diff := cmp.Diff(all, alphas(fitted(t, f, b))); diff != "" {
		t.Fatal(diff)
	}
	// changed is all with changes; a zero value takes a host away.
	changed := func(with map[string][2]int) map[string][2]int {
		m := map[string][2]int{}
		for _, from := range []map[string][2]int{all, with} {
			for name, at := range from {
				m[name] = at
				if at == [2]int{-9, -9} {
					delete(m, name)
				}
			}
		}
		return m
	}
	gone := [2]int{-9, -9}
	replacement := func(f *topology.Fabric) *topology.Fabric {
		f = with(t, without(t, f, host1), adapter(0x600000, "Spare", 200, 2))
		f.Connect(ref(t, f, 0x600000, 1), ref(t, f, leaf0, 2), hdr)
		return f
	}
	move := func(f *topology.Fabric, host, leaf ib.GUID, port int) *topology.Fabric {
		f = f.Clone()
		f.Disconnect(ref(t, f, host, 1))
		f.Connect(ref(t, f, host, 1), ref(t, f, leaf, port), hdr)
		return f
	}
	for _, test := range []struct {
		name  string
		steps []*topology.Fabric // seen one after the other
		hosts map[string][2]int  // after the last
		want  []string           // findings of the last
	}{
		{"a host reboots", []*topology.Fabric{without(t, f, host1)}, changed(map[string][2]int{"Hca0001": gone}),
			[]string{topology.HostAbsent, "Hca0001 (0x0000000000100003) on Leaf000 port 2 is absent"}},
		{"and comes back", []*topology.Fabric{without(t, f, host1), f}, all, nil},
		{"a link that is not active", []*topology.Fabric{func() *topology.Fabric {
			f := f.Clone()
			f.At(ref(t, f, host1, 1)).State = topology.Init
			return f
		}()}, changed(map[string][2]int{"Hca0001": gone}), []string{topology.HostAbsent, "Hca0001"}},
		{"a newcomer while another reboots", []*topology.Fabric{func() *topology.Fabric {
			f := with(t, without(t, f, host4), adapter(0x600000, "Extra", 200, 2))
			f.Connect(ref(t, f, 0x600000, 1), ref(t, f, leaf1, 4), hdr)
			return f
		}()}, changed(map[string][2]int{"Hca0004": gone, "Extra": {1, 3}}),
			[]string{topology.HostNew, "Extra port 1 is new on Leaf001 port 4: it has index 3", topology.HostAbsent, "Hca0004"}},
		{"a swapped adapter", []*topology.Fabric{replacement(f)}, changed(map[string][2]int{"Hca0001": gone, "Spare": {0, 1}}),
			[]string{topology.HostReplaced, "Spare port 1 replaces port 0x0000000000100003 on Leaf000 port 2"}},
		{"a swapped adapter, seen twice", []*topology.Fabric{replacement(f), replacement(f)}, changed(map[string][2]int{"Hca0001": gone, "Spare": {0, 1}}), nil},
		{"a swapped adapter after a reboot", []*topology.Fabric{without(t, f, host1), replacement(f)}, changed(map[string][2]int{"Hca0001": gone, "Spare": {0, 1}}),
			[]string{topology.HostReplaced, "Spare port 1"}},
		{"a host on another port of its leaf", []*topology.Fabric{move(f, host4, leaf1, 4)}, all, nil},
		{"a host on another leaf", []*topology.Fabric{move(f, host1, leaf1, 4)}, changed(map[string][2]int{"Hca0001": {1, 3}}),
			[]string{topology.HostMoved, "Hca0001 port 1 moved from leaf Leaf000 to leaf Leaf001"}},
		{"there and back", []*topology.Fabric{move(f, host1, leaf1, 4), f}, all, []string{topology.HostMoved, "from leaf Leaf001 to leaf Leaf000"}},
		{"two hosts change places", []*topology.Fabric{func() *topology.Fabric {
			f := move(f, host1, leaf1, 4)
			return move(move(f, host4, leaf0, 2), host1, leaf1, 1)
		}()}, changed(map[string][2]int{"Hca0001": {1, 0}, "Hca0004": {0, 1}}), []string{topology.HostMoved, "Hca0004", topology.HostMoved, "Hca0001"}},
		{"the freed index goes to the next newcomer", []*topology.Fabric{move(f, host1, leaf1, 4), func() *topology.Fabric {
			f := with(t, move(f, host1, leaf1, 4), adapter(0x600000, "Extra", 200, 2))
			f.Connect(ref(t, f, 0x600000, 1), ref(t, f, leaf0, 2), hdr)
			return f
		}()}, changed(map[string][2]int{"Hca0001": {1, 3}, "Extra": {0, 1}}), []string{topology.HostNew, "it has index 1"}},
		{"LIDs reassigned", []*topology.Fabric{func() *topology.Fabric {
			f := f.Clone()
			for _, e := range f.EndPorts() {
				if f.At(e.PortRef).LID = 1000 - e.LID; f.Nodes[e.Node].Kind == topology.Switch {
					f.At(e.PortRef).LID = 2000 + e.LID
				}
			}
			return newFabric(t, f.Nodes)
		}()}, all, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			now, ft := b, (*topology.FatTree)(nil)
			for _, f := range test.steps {
				ft = fitted(t, f, now)
				consistent(t, ft)
				now = ft.Baseline
			}
			if diff := cmp.Diff(test.hosts, alphas(ft)); diff != "" {
				t.Error(diff)
			}
			found(t, ft, test.want...)
			if len(ft.Servers) != len(test.hosts) {
				t.Errorf("%d servers of %d hosts", len(ft.Servers), len(test.hosts))
			}
		})
	}
}

// A port whose LID is not there yet waits for it, and keeps its index; a fabric most of
// whose ports wait is not judged.
func TestHostWithoutLID(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1})
	b := baselineOf(t, f)
	f.At(ref(t, f, fabgen.HostGUID, 1)).LID = 0
	ft := fitted(t, f, b)
	consistent(t, ft)
	found(t, ft, topology.PartlyCovered, "does not cover 1 host port (Hca0000 port 1 has no LID yet)")
	if len(ft.Hosts) != 4 || len(ft.Servers) != 3 {
		t.Errorf("%d hosts, %d servers", len(ft.Hosts), len(ft.Servers))
	}
	for _, g := range []ib.GUID{fabgen.HostGUID + 2, fabgen.HostGUID + 4} {
		f.At(ref(t, f, g, 1)).LID = 0
	}
	_, err := topology.Fit(f, b, nil)
	var notYet *topology.NotYet
	if want := "the subnet manager has not finished: the fabric has 4 host ports, and 1 of them have an LID"; !errors.As(err, &notYet) || err.Error() != want {
		t.Errorf("want %q, got %v", want, err)
	}
	if _, err := topology.NewBaseline(f); !errors.As(err, &notYet) {
		t.Errorf("a new baseline: %v", err)
	}
}

// A fabric whose cables are still being brought up is not judged.
func TestNotBroughtUp(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1})
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if port := &f.Nodes[i].Ports[p]; port.Connected() && f.Nodes[i].Kind == topology.Switch {
				port.State = topology.Init
			}
		}
	}
	var notYet *topology.NotYet
	if _, err := topology.NewBaseline(f); !errors.As(err, &notYet) {
		t.Errorf("got %v", err)
	}
}

// Adapters on spines and routers on leaves are routed, but they are not servers. Each port of
// an adapter with several is a host.
func TestOtherHosts(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3, Hosts: []int{4}, Missing: [][2]int{{0, 3}, {1, 3}, {2, 2}, {2, 3}}, LMC: 2})
	spine := &f.Nodes[f.Find(fabgen.SpineGUID)]
	spine.Ports = append(spine.Ports, topology.Port{Peer: topology.None})
	double := adapter(0x700000, "Double", 200, 2)
	double.Ports = append(double.Ports, topology.Port{Peer: topology.None, GUID: 0x700002, LID: 204, LMC: 2})
	router := adapter(0x800000, "Router", 208, 2)
	router.Kind = topology.Router
	for _, n := range []topology.Node{double, router, adapter(0x900000, "Manager", 212, 2)} {
		f = with(t, f, n)
	}
	f.Connect(ref(t, f, 0x700000, 1), ref(t, f, fabgen.LeafGUID, 4), hdr)
	f.Connect(ref(t, f, 0x700000, 2), ref(t, f, fabgen.LeafGUID+1, 4), hdr)
	f.Connect(ref(t, f, 0x800000, 1), ref(t, f, fabgen.LeafGUID+2, 3), hdr)
	f.Connect(ref(t, f, 0x900000, 1), ref(t, f, fabgen.SpineGUID, 4), hdr)
	ft := fitted(t, f, baselineOf(t, f))
	consistent(t, ft)
	found(t, ft, topology.PartlyCovered, "1 host port (Manager port 1 is on spine Spine000)")
	if len(ft.Hosts) != 12 || len(ft.Servers) != 10 {
		t.Fatalf("%d hosts, %d servers", len(ft.Hosts), len(ft.Servers))
	}
	got := map[string]int{}
	for _, h := range ft.Hosts {
		if h.Server {
			got[h.Name]++
		}
	}
	if got["Double"] != 2 || got["Router"] != 0 || got["Manager"] != 0 {
		t.Errorf("servers: %v", got)
	}
	last := ft.Hosts[len(ft.Hosts)-1]
	if last.Name != "Manager" || last.Leaf != -1 || last.Spine != 0 {
		t.Errorf("the last host is %+v", last)
	}
}

// TestRoles checks the roles of nodes.
func TestRoles(t *testing.T) {
	by := topology.Roles{Management: regexp.MustCompile("^mgmt"), Storage: regexp.MustCompile("^(st|mgmt)"), Gateway: regexp.MustCompile("^gw"),
		Aggregation: regexp.MustCompile("^Reducer")}
	for _, test := range []struct {
		name           string
		vendor, device uint32
		want           topology.Role
	}{
		{"node017 mlx5_0", 0x2c9, 0x101b, topology.ComputeNode},
		{"Mellanox Technologies Aggregation Node", 0, 0, topology.AggregationNode},
		{"MELLANOX aggregation-node", 0, 0, topology.AggregationNode},
		{"Quantum SHARP", 0, 0, topology.AggregationNode},
		{"something", 0x2c9, 0xcf09, topology.AggregationNode},
		{"something", 0x1234, 0xcf09, topology.ComputeNode},
		{"Reducer 7", 0, 0, topology.AggregationNode},
		{"sharp-node3 mlx5_0", 0, 0, topology.ComputeNode},
		{"SHARP07 mlx5_1", 0, 0, topology.ComputeNode},
		{"aggregation-node-12 HCA-1", 0, 0, topology.ComputeNode},
		{"mgmt01", 0, 0, topology.ManagementNode},
		{"st01", 0, 0, topology.StorageNode},
		{"gw01", 0, 0, topology.GatewayNode},
		{"", 0, 0, topology.UnknownRole},
	} {
		n := adapter(0x600000, test.name, 200, 0)
		n.Vendor, n.Device = test.vendor, test.device
		f := newFabric(t, []topology.Node{n, bare(0x200000, "S", 1, 2)})
		f.SetRoles(by)
		if got := f.Nodes[f.Find(0x600000)].Role; got != test.want || f.Nodes[f.Find(0x200000)].Role != topology.SwitchNode {
			t.Errorf("%q of 0x%x/0x%x is %s, want %s", test.name, test.vendor, test.device, got, test.want)
		}
	}
}

// TestPortGUIDs has hosts whose ports cannot be told apart: they are routed and no
// servers.
func TestPortGUIDs(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 3, Hosts: []int{4}, LMC: 1})
	f.At(ref(t, f, fabgen.HostGUID, 1)).GUID = 0
	f.At(ref(t, f, fabgen.HostGUID+2, 1)).GUID = 0
	f.At(ref(t, f, fabgen.HostGUID+6, 1)).GUID = fabgen.HostGUID + 5
	ft := fitted(t, f, baselineOf(t, f))
	consistent(t, ft)
	if len(ft.Servers) != 9 || len(ft.Routed) != 3 || len(ft.Uncovered.Hosts) != 3 {
		t.Errorf("%d servers, %d routed, uncovered %+v", len(ft.Servers), len(ft.Routed), ft.Uncovered.Hosts)
	}
	if _, err := topology.ReadBaseline(ft.Baseline.Encode()); err != nil {
		t.Error(err)
	}
}

// TestOldBaseline has aggregation nodes with indices, as baselines were written before
// they were known.
func TestOldBaseline(t *testing.T) {
	f := fabgen.WithAggregation(fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1}))
	b := baselineOf(t, f)
	for l := range b.Leaves {
		b.Leaves[l].Slots = append(b.Leaves[l].Slots, topology.Slot{GUID: fabgen.AggregationGUID + b.Leaves[l].GUID + 1, Name: "Aggregation Node", LeafPort: 5})
	}
	ft := fitted(t, f, b)
	consistent(t, ft)
	found(t, ft)
	if len(ft.Servers) != 4 || len(ft.Routed) != 4 || ft.Baseline.Leaves[0].Slots[2] != (topology.Slot{}) {
		t.Errorf("%d servers, %d aggregation nodes, slots %v", len(ft.Servers), len(ft.Routed), ft.Baseline.Leaves[0].Slots)
	}
}
