// Package judge judges a site from outside. It knows the output of ibnetdiscover and of
// dump_fts, and the CSV and JSON that forsd publishes, and imports no package of this
// module: a fault in one of those cannot be repeated here.
package judge

import (
	"bufio"
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Fabric is a subnet as ibnetdiscover prints it.
type Fabric struct {
	nodes []node
	index map[uint64]int    // [GUID of a node]
	ports map[uint64]end    // [GUID of an adapter's port]
	owner []end             // [LID] the end port that answers to it; node −1 without one
	rank  []int             // [node] 0 for switches with adapters, 1 for those above them, and so on
	full  map[int]float64   // [channel] the rate that a cable should have
	many  map[[2]uint64]int // [GUIDs of two switches] how many cables should join them
	out   map[int]bool      // [channel] kept out of plans
}

// node is a switch, an adapter or a router.
type node struct {
	kind  byte // S, H or R
	guid  uint64
	name  string
	ports []port
}

// port is one port of a node. A switch has its LID at port 0.
type port struct {
	peer, peerPort int     // −1 without a cable
	rate           float64 // in Gb/s
	guid           uint64
	lid, lmc       int
}

// end is an end port.
type end struct{ node, port int }

var (
	switchLine = regexp.MustCompile(`^Switch\s+(\d+)\s+"S-([0-9a-f]{16})"\s+#\s+"(.*)"\s+(?:base|enhanced) port 0 lid (\d+) lmc (\d+)`)
	otherLine  = regexp.MustCompile(`^(?:Ca|Rt)\s+(\d+)\s+"([HR])-([0-9a-f]{16})"\s+#\s+"(.*)"`)
	portLine   = regexp.MustCompile(`^\[(\d+)\](?:\(([0-9a-f]+)\))?(?:\[ext \d+\])?\s+"[SHR]-([0-9a-f]{16})"\[(\d+)\](?:\([0-9a-f]+\))?(?:\[ext \d+\])?\s+#\s+(?:lid (\d+) lmc (\d+) )?.*\s(\S+)$`)
)

// ReadFabric reads the output of ibnetdiscover. A cable that one of its ends does not show
// is an error, and so are two ends that answer to one LID.
func ReadFabric(discovered []byte) (*Fabric, error) {
	f := &Fabric{index: map[uint64]int{}, ports: map[uint64]end{}, full: map[int]float64{}, many: map[[2]uint64]int{}, out: map[int]bool{}}
	type cable struct {
		from end
		to   uint64
		port int
	}
	var cables []cable
	lines := bufio.NewScanner(bytes.NewReader(discovered))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), " ")
		if m := switchLine.FindStringSubmatch(line); m != nil {
			f.add('S', m[1], m[2], m[3])
			f.nodes[len(f.nodes)-1].ports[0] = port{peer: -1, guid: hex(m[2]), lid: number(m[4]), lmc: number(m[5])}
		} else if m := otherLine.FindStringSubmatch(line); m != nil {
			f.add(m[2][0], m[1], m[3], m[4])
		} else if m := portLine.FindStringSubmatch(line); m != nil {
			at := end{len(f.nodes) - 1, number(m[1])}
			if at.node < 0 || at.port == 0 || at.port >= len(f.nodes[at.node].ports) {
				return nil, fmt.Errorf("ibnetdiscover line %d: there is no such port: %s", n, line)
			}
			f.nodes[at.node].ports[at.port] = port{peer: -1, rate: gigabits(m[7]), guid: hex(m[2]), lid: number(m[5]), lmc: number(m[6])}
			cables = append(cables, cable{at, hex(m[3]), number(m[4])})
		} else if strings.HasPrefix(line, "[") {
			return nil, fmt.Errorf("ibnetdiscover line %d is not a port: %s", n, line)
		}
	}
	for _, c := range cables {
		to, ok := f.index[c.to]
		if !ok || c.port >= len(f.nodes[to].ports) {
			return nil, fmt.Errorf("%s has a cable to port %d of %016x, which was not discovered", f.label(c.from.channel()), c.port, c.to)
		}
		p := &f.nodes[c.from.node].ports[c.from.port]
		p.peer, p.peerPort = to, c.port
	}
	for _, c := range cables {
		p := f.at(c.from)
		if back := f.at(end{p.peer, p.peerPort}); back.peer != c.from.node || back.peerPort != c.from.port {
			return nil, fmt.Errorf("%s has a cable that its other end does not show", f.label(c.from.channel()))
		}
	}
	f.As(f)
	return f, f.own()
}

// add begins a node.
func (f *Fabric) add(kind byte, ports, guid, name string) {
	n := node{kind, hex(guid), name, make([]port, number(ports)+1)}
	for p := range n.ports {
		n.ports[p].peer = -1
	}
	f.index[n.guid] = len(f.nodes)
	f.nodes = append(f.nodes, n)
}

// own fills owner and ports.
func (f *Fabric) own() error {
	f.owner = make([]end, 1<<16)
	for lid := range f.owner {
		f.owner[lid].node = -1
	}
	for i := range f.nodes {
		for p := range f.nodes[i].ports {
			at, x := end{i, p}, &f.nodes[i].ports[p]
			if f.nodes[i].kind != 'S' && x.peer >= 0 {
				f.ports[x.guid] = at
			}
			for lid := x.lid; x.lid > 0 && lid < x.lid+1<<x.lmc; lid++ {
				if o := f.owner[lid]; o.node >= 0 {
					return fmt.Errorf("%s and %s answer to LID %d", f.label(o.channel()), f.label(at.channel()), lid)
				}
				f.owner[lid] = at
			}
		}
	}
	return nil
}

// aggregation begins the names of adapters inside switches, which are on any level.
const aggregation = "Mellanox Technologies Aggregation Node"

// As compares the fabric with another one, such as the fabric as it was accepted, which
// gives the level of each switch and the rate that each cable should have. Without it the
// levels are those of the fabric itself, and all cables between switches should be as fast
// as the fastest of them.
func (f *Fabric) As(whole *Fabric) {
	ranks := whole.ranks()
	f.rank = make([]int, len(f.nodes))
	fastest := 0.0
	for i := range f.nodes {
		f.rank[i] = len(f.nodes)
		if j, ok := whole.index[f.nodes[i].guid]; ok {
			f.rank[i] = ranks[j]
		}
		for p := range f.nodes[i].ports {
			if f.between(end{i, p}) {
				fastest = max(fastest, f.nodes[i].ports[p].rate)
			}
		}
	}
	clear(f.full)
	clear(f.many)
	for i := range whole.nodes {
		for p := range whole.nodes[i].ports {
			if at := (end{i, p}); whole.between(at) {
				f.many[[2]uint64{whole.nodes[i].guid, whole.nodes[whole.at(at).peer].guid}]++
			}
		}
	}
	for i := range f.nodes {
		for p := range f.nodes[i].ports {
			at := end{i, p}
			f.full[at.channel()] = fastest
			if j, ok := whole.index[f.nodes[i].guid]; whole != f && ok && p < len(whole.nodes[j].ports) && whole.nodes[j].ports[p].rate > 0 {
				f.full[at.channel()] = whole.nodes[j].ports[p].rate
			}
		}
	}
}

// ranks are the levels of switches, and a number beyond them all for adapters. Leaves are the
// switches with adapters, and those two levels up that join no two pods: they are leaves, too,
// whose hosts are away.
func (f *Fabric) ranks() []int {
	var leaves []int
	for i := range f.nodes {
		if f.nodes[i].kind == 'S' && slices.ContainsFunc(f.nodes[i].ports, func(p port) bool {
			return p.peer >= 0 && f.nodes[p.peer].kind != 'S' && !strings.HasPrefix(f.nodes[p.peer].name, aggregation)
		}) {
			leaves = append(leaves, i)
		}
	}
	for {
		ranks := f.above(leaves)
		part, before := f.parts(ranks, 2), len(leaves)
		for i := range f.nodes {
			pods := map[int]bool{}
			for _, p := range f.nodes[i].ports {
				if p.peer >= 0 && ranks[p.peer] == 1 {
					pods[part[p.peer]] = true
				}
			}
			if ranks[i] == 2 && len(pods) == 1 {
				leaves = append(leaves, i)
			}
		}
		if len(leaves) == before {
			return ranks
		}
	}
}

// above is the distance of switches from some leaves.
func (f *Fabric) above(leaves []int) []int {
	ranks := slices.Repeat([]int{len(f.nodes)}, len(f.nodes))
	for _, i := range leaves {
		ranks[i] = 0
	}
	for queue := slices.Clone(leaves); len(queue) > 0; queue = queue[1:] {
		for _, p := range f.nodes[queue[0]].ports {
			if p.peer >= 0 && f.nodes[p.peer].kind == 'S' && ranks[p.peer] == len(f.nodes) {
				ranks[p.peer] = ranks[queue[0]] + 1
				queue = append(queue, p.peer)
			}
		}
	}
	return ranks
}

// KeepOut takes a cable out of all plans, by the GUID of a switch and a port of it, or all
// cables of a switch, by port 0. A missing part is out anyway.
func (f *Fabric) KeepOut(guid uint64, port int) {
	i, ok := f.index[guid]
	if !ok {
		return
	}
	for p := range f.nodes[i].ports {
		if at := (end{i, p}); (port == 0 || port == p) && f.between(at) {
			f.out[at.channel()] = true
			f.out[f.far(at).channel()] = true
		}
	}
}

// between reports whether a cable joins two switches.
func (f *Fabric) between(at end) bool {
	p := f.at(at)
	return f.nodes[at.node].kind == 'S' && p.peer >= 0 && f.nodes[p.peer].kind == 'S'
}

// usable reports whether plans may use the cable between switches at a port.
func (f *Fabric) usable(at end) bool {
	back := f.far(at)
	return f.between(at) && !f.out[at.channel()] && f.at(at).rate >= f.full[at.channel()] && f.at(back).rate >= f.full[back.channel()]
}

// whole reports whether plans may use all cables that should join the two switches of one.
func (f *Fabric) whole(at end) bool {
	n := 0
	for p := range f.nodes[at.node].ports {
		if f.at(end{at.node, p}).peer == f.at(at).peer && f.usable(end{at.node, p}) {
			n++
		}
	}
	return f.usable(at) && n >= f.many[[2]uint64{f.nodes[at.node].guid, f.nodes[f.at(at).peer].guid}]
}

// far is the other end of the cable at a port.
func (f *Fabric) far(at end) end { return end{f.at(at).peer, f.at(at).peerPort} }

func (f *Fabric) at(e end) *port { return &f.nodes[e.node].ports[e.port] }

// channel numbers a directed cable by the port that it leaves.
func (e end) channel() int { return e.node<<8 | e.port }

func ofChannel(c int) end { return end{c >> 8, c & 255} }

// label names a port.
func (f *Fabric) label(channel int) string {
	e := ofChannel(channel)
	return fmt.Sprintf("%s port %d", f.nodes[e.node].name, e.port)
}

// speeds are the speeds of one pair of wires, in Gb/s.
var speeds = map[string]float64{"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}

// gigabits is a rate such as 4xHDR, in Gb/s.
func gigabits(rate string) float64 {
	width, speed, _ := strings.Cut(rate, "x")
	return float64(number(width)) * speeds[speed]
}

// number and hex read digits that an expression has matched.
func number(digits string) int { n, _ := strconv.Atoi(digits); return n }

func hex(digits string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(digits, "0x"), 16, 64)
	return n
}
