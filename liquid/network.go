package liquid

import (
	"cmp"
	_ "embed" // of the paper's test bed
	"encoding/json"
	"fmt"
	"slices"
)

// Network is a network with static routes and the nodes on its switches.
type Network struct {
	Name  string   // its file
	Rate  float64  // speed of a link in MB/s, or 0
	Links []string // [link] names
	// NodeSwitch is the switch of each node, [node]; nodes of a switch are in
	// ascending order.
	NodeSwitch []int
	Switches   int

	rates  []float64 // [link] MB/s
	routes [][]Link  // [src·nodes+dst], nil without a route
}

// networkFile is the JSON form of a network. Other keys are comments.
type networkFile struct {
	LinkMBps   float64 `json:"link_MBps"`
	NodeSwitch []int   `json:"node_switch"`
	Links      []struct {
		ID   int     `json:"id"`
		Name string  `json:"name"`
		MBps float64 `json:"MBps"` // if it differs from link_MBps
	} `json:"links"`
	Routes []struct {
		Src   int    `json:"src"`
		Dst   int    `json:"dst"`
		Links []Link `json:"links"`
	} `json:"routes"`
}

// The largest network that can be read.
const (
	maxNodes = 1024
	maxLinks = 1 << 16
)

//go:embed testdata/swiss-t1.json
var swissT1 []byte

// SwissT1 is the paper's test bed: 32 nodes on 8 switches in a K-ring, with the
// routes that its figures imply.
func SwissT1() (*Network, error) { return ParseNetwork(swissT1, "swiss-t1.json") }

// ParseNetwork parses a network in JSON: `node_switch`, the switch of each node;
// `links`, each with its `id` (its index in the list), a `name` and, if it differs
// from `link_MBps`, its speed `MBps`; `routes`, each with the nodes `src` and `dst`
// and the `links` between them. name is used in errors.
func ParseNetwork(data []byte, name string) (*Network, error) {
	var f networkFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("read network %s: %w", name, err)
	}
	n := &Network{Name: name, Rate: f.LinkMBps, NodeSwitch: f.NodeSwitch}
	if err := n.setLinks(&f); err != nil {
		return nil, fmt.Errorf("read network %s: %w", name, err)
	}
	if err := n.setRoutes(&f); err != nil {
		return nil, fmt.Errorf("read network %s: %w", name, err)
	}
	return n, nil
}

func (n *Network) setLinks(f *networkFile) error {
	switch {
	case len(f.NodeSwitch) == 0:
		return fmt.Errorf("node_switch is missing or empty: it gives the switch of each node")
	case len(f.NodeSwitch) > maxNodes:
		return fmt.Errorf("node_switch has %d nodes: at most %d can be read", len(f.NodeSwitch), maxNodes)
	case len(f.Links) > maxLinks:
		return fmt.Errorf("there are %d links: at most %d can be read", len(f.Links), maxLinks)
	case f.LinkMBps < 0:
		return fmt.Errorf("link_MBps is %g: a speed is positive", f.LinkMBps)
	}
	for i, s := range f.NodeSwitch {
		if s < 0 || s >= maxNodes {
			return fmt.Errorf("node_switch: node %d is on switch %d: switches count from 0 to %d", i, s, maxNodes-1)
		}
		n.Switches = max(n.Switches, s+1)
	}
	for i, l := range f.Links {
		if l.ID != i {
			return fmt.Errorf("links: the entry in place %d has id %d: ids count from 0 in the order of the list", i, l.ID)
		}
		if l.MBps < 0 {
			return fmt.Errorf("links: link %d has speed %g: a speed is positive", i, l.MBps)
		}
		rate := cmp.Or(l.MBps, f.LinkMBps)
		if rate == 0 {
			rate = 1
		}
		n.Links, n.rates = append(n.Links, l.Name), append(n.rates, rate)
	}
	return nil
}

func (n *Network) setRoutes(f *networkFile) error {
	nodes := len(n.NodeSwitch)
	n.routes = make([][]Link, nodes*nodes)
	for i, r := range f.Routes {
		if r.Src < 0 || r.Src >= nodes || r.Dst < 0 || r.Dst >= nodes {
			return fmt.Errorf("routes: route %d leads from node %d to node %d: nodes count from 0 to %d", i, r.Src, r.Dst, nodes-1)
		}
		at := &n.routes[r.Src*nodes+r.Dst]
		if *at != nil {
			return fmt.Errorf("routes: route %d leads from node %d to node %d, as an earlier one does: routes are static, so one suffices", i, r.Src, r.Dst)
		}
		if len(r.Links) == 0 {
			return fmt.Errorf("routes: route %d, from node %d to node %d, has no links", i, r.Src, r.Dst)
		}
		links := slices.Clone(r.Links)
		slices.Sort(links)
		for j, l := range links {
			if l < 0 || int(l) >= len(n.Links) {
				return fmt.Errorf("routes: route %d, from node %d to node %d, uses link %d: links count from 0 to %d", i, r.Src, r.Dst, l, len(n.Links)-1)
			}
			if j > 0 && links[j-1] == l {
				return fmt.Errorf("routes: route %d, from node %d to node %d, uses link %d twice", i, r.Src, r.Dst, l)
			}
		}
		*at = links
	}
	return nil
}

// Nodes is the number of nodes.
func (n *Network) Nodes() int { return len(n.NodeSwitch) }

// Capacity is the number of nodes on each switch, [switch].
func (n *Network) Capacity() []int {
	c := make([]int, n.Switches)
	for _, s := range n.NodeSwitch {
		c[s]++
	}
	return c
}

// Allocated returns the nodes of an allocation, ascending: the first alloc[s] nodes
// of each switch s.
func (n *Network) Allocated(alloc []int) ([]int, error) {
	capacity := n.Capacity()
	if len(alloc) != len(capacity) {
		return nil, fmt.Errorf("the allocation has %d numbers: network %s has %d switches", len(alloc), n.Name, len(capacity))
	}
	for s, want := range alloc {
		if want < 0 || want > capacity[s] {
			return nil, fmt.Errorf("the allocation wants %d nodes on switch %d, which has %d", want, s, capacity[s])
		}
	}
	var nodes []int
	given := make([]int, len(capacity))
	for node, s := range n.NodeSwitch {
		if given[s]++; given[s] <= alloc[s] {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// AllToAll returns the exchange in which each of the nodes sends to each, including
// itself if the network has a route for that. It fails on a pair of different nodes
// without a route.
func (n *Network) AllToAll(nodes []int) (*Traffic, error) {
	var pairs []Pair
	for _, src := range nodes {
		for _, dst := range nodes {
			if src != dst || n.Route(src, dst) != nil {
				pairs = append(pairs, Pair{int32(src), int32(dst)})
			}
		}
	}
	return n.Exchange(pairs)
}

// AllocatedAllToAll returns the all-to-all exchange of the nodes of an allocation: see
// Allocated and AllToAll.
func (n *Network) AllocatedAllToAll(alloc []int) (*Traffic, error) {
	nodes, err := n.Allocated(alloc)
	if err != nil {
		return nil, err
	}
	return n.AllToAll(nodes)
}

// Exchange returns the traffic of the given pairs of nodes. It fails on a pair
// without a route.
func (n *Network) Exchange(pairs []Pair) (*Traffic, error) {
	paths := make([][]Link, len(pairs))
	for i, p := range pairs {
		if p.Src < 0 || int(p.Src) >= n.Nodes() || p.Dst < 0 || int(p.Dst) >= n.Nodes() {
			return nil, fmt.Errorf("pair %d is %d→%d: the nodes of network %s count from 0 to %d", i, p.Src, p.Dst, n.Name, n.Nodes()-1)
		}
		if paths[i] = n.Route(int(p.Src), int(p.Dst)); paths[i] == nil {
			return nil, fmt.Errorf("network %s has no route from node %d to node %d", n.Name, p.Src, p.Dst)
		}
	}
	t, err := NewTraffic(len(n.Links), pairs, paths)
	if err != nil {
		return nil, err
	}
	return t, t.SetRates(n.rates)
}

// Route returns the links from one node to another, or nil.
func (n *Network) Route(src, dst int) []Link { return n.routes[src*n.Nodes()+dst] }
