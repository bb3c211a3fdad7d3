package fabgen

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Main is fabgen as a command of test scripts: it prints a generated fabric as a topology
// file, after the changes that its flags ask for.
func Main() {
	var s Spec
	flags := flag.NewFlagSet("fabgen", flag.ExitOnError)
	flags.IntVar(&s.Spines, "spines", 4, "M0")
	flags.IntVar(&s.Leaves, "leaves", 4, "M1")
	kary := flags.Int("k", 4, "ports of the switches of a k-ary 3-tree")
	flags.IntVar(&s.Cables, "cables", 1, "parallel cables")
	flags.Uint64Var(&s.Shuffle, "shuffle", 0, "seed of the cabling order")
	lmc := flags.Int("lmc", 2, "LMC of the host ports")
	hosts := flags.String("hosts", "", "hosts of each leaf")
	missing := flags.String("missing", "", "hosts left out, as leaf/slot")
	rename := flags.String("rename", "", "old=new: a node's description")
	swap := flags.String("swap", "", "a host that gets a new adapter")
	relid := flags.Bool("relid", false, "hand the host LIDs out in reverse")
	shape := flags.String("shape", "tree", "tree, torus (6×6), dragonfly (9 groups), pods (three levels, tops for all planes), kary (k-ary 3-tree)")
	inSwitches := flags.Bool("aggregation", false, "an aggregation node in every switch")
	onSpine := flags.String("on-spine", "", "a spine that gets an adapter")
	cable := flags.String("cable", "", "node,node: one more cable between two switches")
	slow := flags.String("slow", "", "node,port: a cable that trained to a lower rate")
	move := flags.String("move", "", "node,from,to: plug the cable of one port into another")
	format := flags.String("format", "ibnetdiscover", "ibnetdiscover, lst or guid2lid")
	_ = flags.Parse(os.Args[1:]) // it exits on errors
	s.LMC = uint8(*lmc)
	s.Hosts = numbers(*hosts, ",")
	for _, m := range strings.FieldsFunc(*missing, isComma) {
		at := numbers(m, "/")
		s.Missing = append(s.Missing, [2]int{at[0], at[1]})
	}
	f := map[string]func() *topology.Fabric{"tree": func() *topology.Fabric { return Generate(s) },
		"torus": func() *topology.Fabric { return Torus(6, 6, 2) }, "dragonfly": func() *topology.Fabric { return Dragonfly(9, 4, 2) },
		"kary": func() *topology.Fabric {
			three := KAry(*kary)
			three.LMC, three.Shuffle, three.Missing = s.LMC, s.Shuffle, s.Missing
			return GenerateTree(three)
		},
		"pods": func() *topology.Fabric {
			return Pods(PodSpec{Pods: 4, Leaves: 4, Spines: 4, Tops: 4, Hosts: 4})
		}}[*shape]()
	if *inSwitches {
		f = WithAggregation(f)
	}
	if from, to, ok := strings.Cut(*rename, "="); ok {
		node(f, from).Name = to
	}
	if *swap != "" {
		n := node(f, *swap)
		n.GUID, n.System, n.Ports[1].GUID = 0x1ff000, 0x1ff000, 0x1ff001
	}
	if *relid {
		reverseLIDs(f)
	}
	if at, ports, ok := strings.Cut(*move, ","); ok {
		to := numbers(ports, ",")
		moveCable(f, topology.PortRef{Node: index(f, at), Port: uint8(to[0])}, uint8(to[1]))
	}
	if at, port, ok := strings.Cut(*slow, ","); ok {
		ref := topology.PortRef{Node: index(f, at), Port: uint8(numbers(port, ",")[0])}
		peer := topology.PortRef{Node: f.At(ref).Peer, Port: f.At(ref).PeerPort}
		for _, r := range []topology.PortRef{ref, peer} {
			f.At(r).Rate = ib.Rate{Width: 1, Speed: ib.HDR}
		}
	}
	if a, b, ok := strings.Cut(*cable, ","); ok {
		f.Connect(newPort(f, index(f, a)), newPort(f, index(f, b)), ib.Rate{Width: 4, Speed: ib.HDR})
	}
	if *onSpine != "" {
		addAdapter(f, index(f, *onSpine))
	}
	f, err := topology.NewFabric(f.Nodes, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fabgen:", err)
		os.Exit(1)
	}
	_, _ = os.Stdout.Write(map[string]func(*topology.Fabric) []byte{"ibnetdiscover": Ibnetdiscover,
		"lst": SubnetLst, "guid2lid": GUID2LID}[*format](f))
}

func isComma(r rune) bool { return r == ',' }

// numbers reads decimals between separators.
func numbers(text, separator string) []int {
	var out []int
	for _, s := range strings.Split(text, separator) {
		if n, err := strconv.Atoi(s); err == nil {
			out = append(out, n)
		}
	}
	return out
}

func index(f *topology.Fabric, name string) int32 {
	i := slices.IndexFunc(f.Nodes, func(n topology.Node) bool { return n.Name == name })
	if i < 0 {
		fmt.Fprintf(os.Stderr, "fabgen: no node %q\n", name)
		os.Exit(1)
	}
	return int32(i)
}

func node(f *topology.Fabric, name string) *topology.Node { return &f.Nodes[index(f, name)] }

// newPort gives a switch one more port.
func newPort(f *topology.Fabric, i int32) topology.PortRef {
	n := &f.Nodes[i]
	n.Ports = append(n.Ports, topology.Port{Peer: topology.None})
	return topology.PortRef{Node: i, Port: uint8(len(n.Ports) - 1)}
}

// moveCable plugs the end of a cable at ref into another port of its node.
func moveCable(f *topology.Fabric, ref topology.PortRef, to uint8) {
	peer, rate := topology.PortRef{Node: f.At(ref).Peer, Port: f.At(ref).PeerPort}, f.At(ref).Rate
	f.Disconnect(ref)
	for int(to) >= len(f.Nodes[ref.Node].Ports) {
		newPort(f, ref.Node)
	}
	f.Connect(topology.PortRef{Node: ref.Node, Port: to}, peer, rate)
}

// addAdapter plugs an adapter into a switch, with LIDs beyond all others.
func addAdapter(f *topology.Fabric, at int32) {
	last := ib.LID(0)
	for _, e := range f.EndPorts() {
		last = max(last, e.LID+1<<e.LMC)
	}
	port := newPort(f, at)
	f.Nodes = append(f.Nodes, topology.Node{Kind: topology.Adapter, GUID: 0x400000, System: 0x400000, Name: "Manager",
		Ports: []topology.Port{{Peer: topology.None}, {Peer: topology.None, GUID: 0x400001, LID: last}}})
	f.Connect(topology.PortRef{Node: int32(len(f.Nodes) - 1), Port: 1}, port, ib.Rate{Width: 4, Speed: ib.HDR})
}

// reverseLIDs hands the host LIDs out in descending order of GUID.
func reverseLIDs(f *topology.Fabric) {
	var hosts []topology.PortRef
	var lids []ib.LID
	for _, e := range f.EndPorts() {
		if f.Nodes[e.Node].Kind != topology.Switch {
			hosts, lids = append(hosts, e.PortRef), append(lids, e.LID)
		}
	}
	slices.Reverse(lids)
	for i, h := range hosts {
		f.At(h).LID = lids[i]
	}
}
