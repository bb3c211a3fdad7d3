package liquid

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// testBed is the test bed of the paper: 8 switches in a K-ring with 4 nodes each.
func testBed(t testing.TB) *Network {
	t.Helper()
	n, err := SwissT1()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// exchange is the all-to-all exchange of an allocation.
func exchange(t testing.TB, n *Network, alloc []int) *Traffic {
	t.Helper()
	traffic, err := n.AllocatedAllToAll(alloc)
	if err != nil {
		t.Fatal(err)
	}
	return traffic
}

// TestSwissT1 checks the figures of the paper's annex for all 32 nodes.
func TestSwissT1(t *testing.T) {
	n := testBed(t)
	traffic := exchange(t, n, n.Capacity())
	if traffic.Len() != 1024 || traffic.ConflictEdges() != 48704 || traffic.Duration() != 48 {
		t.Errorf("%d vertices, %d edges, Λ = %d; want 1024, 48704, 48", traffic.Len(), traffic.ConflictEdges(), traffic.Duration())
	}
	r, err := Make(context.Background(), traffic, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Liquid || r.Method != MethodSearch {
		t.Errorf("liquid: %v, by %s; want a liquid schedule by the search", r.Liquid, r.Method)
	}
}

// TestNetworkRefuses parses networks with one error each.
func TestNetworkRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, "unexpected end of JSON input"},
		{`{}`, "node_switch is missing"},
		{`{"node_switch":[-1]}`, "node 0 is on switch -1"},
		{`{"node_switch":[0],"links":[{"id":1}]}`, "place 0 has id 1"},
		{`{"node_switch":[0],"links":[{"id":0,"MBps":-1}]}`, "speed -1"},
		{`{"node_switch":[0],"link_MBps":-3}`, "link_MBps is -3"},
		{`{"node_switch":[0],"links":[{"id":0}],"routes":[{"src":0,"dst":1,"links":[0]}]}`, "nodes count from 0 to 0"},
		{`{"node_switch":[0],"links":[{"id":0}],"routes":[{"src":0,"dst":0,"links":[]}]}`, "has no links"},
		{`{"node_switch":[0],"links":[{"id":0}],"routes":[{"src":0,"dst":0,"links":[1]}]}`, "uses link 1"},
		{`{"node_switch":[0],"links":[{"id":0}],"routes":[{"src":0,"dst":0,"links":[0,0]}]}`, "uses link 0 twice"},
		{`{"node_switch":[0],"links":[{"id":0}],"routes":[{"src":0,"dst":0,"links":[0]},{"src":0,"dst":0,"links":[0]}]}`, "as an earlier one does"},
	} {
		if _, err := ParseNetwork([]byte(c.text), "n.json"); err == nil || !containsAll(err.Error(), "n.json", c.want) {
			t.Errorf("%s: error %v, want %q", c.text, err, c.want)
		}
	}
	n := testBed(t)
	for _, alloc := range [][]int{{1}, {5, 0, 0, 0, 0, 0, 0, 0}, {-1, 0, 0, 0, 0, 0, 0, 0}} {
		if _, err := n.Allocated(alloc); err == nil {
			t.Errorf("allocation %v was taken", alloc)
		}
	}
	if _, err := n.Exchange([]Pair{{0, 32}}); err == nil {
		t.Error("a node that does not exist was taken")
	}
	n.routes[1] = nil
	if _, err := n.AllToAll([]int{0, 1}); err == nil {
		t.Error("a missing route was taken")
	}
}

func FuzzParseNetwork(f *testing.F) {
	small := map[string]any{"link_MBps": 86, "node_switch": []int{0, 1}, "links": []map[string]any{{"id": 0, "name": "a"}, {"id": 1, "name": "b", "MBps": 43}},
		"routes": []map[string]any{{"src": 0, "dst": 1, "links": []int{0}}, {"src": 1, "dst": 0, "links": []int{1}}}}
	text, err := json.Marshal(small)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(swissT1)
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := ParseNetwork(data, "fuzz")
		if err != nil {
			return
		}
		var nodes []int
		for i := range min(n.Nodes(), 6) {
			nodes = append(nodes, i)
		}
		traffic, err := n.AllToAll(nodes)
		if err != nil {
			return
		}
		r, err := Make(context.Background(), traffic, Options{Nodes: 1000, Moves: 100})
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(traffic, r.Schedule); err != nil {
			t.Fatal(err)
		}
	})
}

func containsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}
