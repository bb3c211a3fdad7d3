package judge

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// shapes are the fabrics of TestRoutes: trees and others, that have loops of switches.
var shapes = []func(rng *rand.Rand) *topology.Fabric{
	func(rng *rand.Rand) *topology.Fabric {
		return fabgen.Generate(fabgen.Spec{Spines: 1 + rng.IntN(5), Leaves: 2 + rng.IntN(5), Hosts: []int{1 + rng.IntN(4), 1 + rng.IntN(4)}, Cables: 1 + rng.IntN(2)})
	},
	func(rng *rand.Rand) *topology.Fabric {
		return fabgen.GenerateTree(fabgen.TreeSpec{Pods: 2 + rng.IntN(2), Leaves: 2, Mids: 2, Tops: 1 + rng.IntN(2), Hosts: 1 + rng.IntN(3)})
	},
	func(rng *rand.Rand) *topology.Fabric { return fabgen.Torus(3+rng.IntN(3), 3, 1+rng.IntN(2)) },
	func(rng *rand.Rand) *topology.Fabric { return fabgen.Dragonfly(3+rng.IntN(2), 2, 1+rng.IntN(2)) },
}

// shortest are tables by which each switch forwards to any of its neighbours that are nearer.
func shortest(f *topology.Fabric, rng *rand.Rand) *lft.Tables {
	t, most := new(lft.Tables), ib.LID(0)
	hosts := f.ConnectedHosts()
	for _, h := range hosts {
		most = max(most, h.LID)
	}
	index := map[int32]int{}
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			index[int32(i)] = len(t.Switches)
			out := make([]uint8, most+1)
			for lid := range out {
				out[lid] = lft.NoPath
			}
			t.Switches = append(t.Switches, lft.Table{GUID: f.Nodes[i].GUID, Out: out})
		}
	}
	for _, h := range hosts {
		far := map[int32]int{h.Node: 0}
		for queue := []int32{h.Node}; len(queue) > 0; queue = queue[1:] {
			for _, p := range f.Nodes[queue[0]].Ports {
				if _, is := index[p.Peer]; !is {
					continue
				}
				if _, seen := far[p.Peer]; !seen {
					far[p.Peer] = far[queue[0]] + 1
					queue = append(queue, p.Peer)
				}
			}
		}
		for node := range int32(len(f.Nodes)) {
			i, is := index[node]
			if !is {
				continue
			}
			var nearer []uint8
			for p := range f.Nodes[node].Ports {
				if d, is := far[f.Nodes[node].Ports[p].Peer]; is && f.Nodes[node].Ports[p].Peer != topology.None && d < far[node] {
					nearer = append(nearer, uint8(p))
				}
			}
			if len(nearer) > 0 {
				t.Switches[i].Out[h.LID] = nearer[int(h.LID)*31%len(nearer)]
				if rng.IntN(3) == 0 {
					t.Switches[i].Out[h.LID] = nearer[0]
				}
			}
		}
	}
	return t
}

// checked is ibdmchk's result on tables.
type checked struct {
	lost         int
	loop         bool
	destinations map[string]int // by system and port
}

var (
	missing  = regexp.MustCompile(`-E- Found (\d+) missing paths`)
	portUses = regexp.MustCompile(`(?m)^ *(\d+) S([0-9a-f]{16})/U1/P(\d+)$`)
)

// ibdmchk makes ibdmchk follow tables, those of all LIDs of adapters.
func ibdmchk(t *testing.T, f *topology.Fabric, tables *lft.Tables) checked {
	t.Helper()
	var fdbs bytes.Buffer
	for i := range tables.Switches {
		fmt.Fprintf(&fdbs, "osm_ucast_mgr_dump_ucast_routes: Switch 0x%016x\nLID    : Port : Hops : Optimal\n", uint64(tables.Switches[i].GUID))
		for lid, port := range tables.Switches[i].Out {
			if port != lft.NoPath {
				fmt.Fprintf(&fdbs, "0x%04X : %03d  : 00   : yes\n", lid, port)
			}
		}
		fdbs.WriteByte('\n')
	}
	said, uses, err := runIbdmchk(t.Context(), fabgen.SubnetLst(f), fdbs.Bytes())
	c := checked{destinations: map[string]int{}}
	if m := missing.FindSubmatch(said); m != nil {
		c.lost, _ = strconv.Atoi(string(m[1]))
		return c // it goes no further
	}
	switch free := bytes.Contains(said, []byte("no credit loops found")); {
	case !bytes.Contains(said, []byte("Analyzing Fabric for Credit Loops")):
		t.Fatalf("ibdmchk has no verdict: %s", said)
	default:
		c.loop = !free
	}
	if uses == nil {
		t.Fatalf("ibdmchk has left no report: %v", err)
	}
	for _, m := range portUses.FindAllSubmatch(uses, -1) {
		if n, _ := strconv.Atoi(string(m[1])); n > 0 {
			c.destinations[string(m[2])+" "+string(m[3])] = n
		}
	}
	return c
}

// TestRoutes compares a survey of random tables with ibdmchk's: the pairs whose packets are lost,
// whether there is a credit loop, and the destinations of each port between switches.
func TestRoutes(t *testing.T) {
	if _, err := exec.LookPath("ibdmchk"); err != nil {
		t.Skip("ibutils is not installed")
	}
	rng := rand.New(rand.NewPCG(39, 5))
	var lossy, loops, good int
	for n := range 200 {
		f := shapes[n%len(shapes)](rng)
		tables := shortest(f, rng)
		if n%3 == 0 {
			for range 1 + rng.IntN(3) {
				out := tables.Switches[rng.IntN(len(tables.Switches))].Out
				out[rng.IntN(len(out))] = []uint8{lft.NoPath, uint8(1 + rng.IntN(6))}[rng.IntN(2)]
			}
		}
		survey, err := sim.NewSurvey(f, tables, f.ConnectedHosts())
		if err != nil {
			t.Fatal(err)
		}
		want := ibdmchk(t, f, tables)
		if survey.Lost != want.lost {
			t.Fatalf("tables %d: %d of %d pairs are lost, and ibdmchk has %d", n, survey.Lost, survey.Pairs, want.lost)
		}
		if want.lost > 0 {
			lossy++
			continue
		}
		if loop := survey.CreditLoop != nil; loop != want.loop {
			t.Fatalf("tables %d: credit loop %v, and ibdmchk has %v", n, survey.CreditLoop, want.loop)
		} else if loop {
			loops++
		} else {
			good++
		}
		destinations, port := map[string]int{}, map[string]string{}
		for i := range f.Nodes {
			for p := range f.Nodes[i].Ports {
				port[f.PortLabel(topology.PortRef{Node: int32(i), Port: uint8(p)})] = fmt.Sprintf("%016x %d", uint64(f.Nodes[i].GUID), p)
			}
		}
		for _, u := range survey.Ports {
			if u.Destinations > 0 {
				destinations[port[u.Port]] = u.Destinations
			}
		}
		if !maps.Equal(destinations, want.destinations) {
			t.Fatalf("tables %d: destinations of ports:\n%v, and ibdmchk has\n%v", n, destinations, want.destinations)
		}
	}
	t.Logf("%d tables lose packets, %d have a credit loop, %d are good", lossy, loops, good)
	if lossy < 20 || loops < 20 || good < 20 {
		t.Error("too few of a kind were drawn")
	}
}
