package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Survey is what forwarding tables make of a fabric for programs that send to base LIDs.
type Survey struct {
	Hosts    int `json:"hosts"`
	Switches int `json:"switches"`
	// Pairs counts the ordered pairs of hosts, Lost those whose packets do not arrive.
	Pairs int `json:"pairs"`
	Lost  int `json:"lost"`
	// Faults are the entries at which packets are lost, by switch and LID.
	Faults []Fault `json:"faults,omitempty"`
	// Unused counts the cables between switches that no pair of hosts uses in any direction.
	Unused int `json:"unused_cables"`
	// CreditLoop are links each of which can wait for the next, and the last for the first;
	// none where the tables cannot deadlock.
	CreditLoop []string `json:"credit_loop,omitempty"`
	// BusiestCable is the most transfers on a link when every host sends to every other one;
	// FairShare is a number below which no tables with one LID a host can bring it.
	BusiestCable int     `json:"busiest_cable"`
	FairShare    int     `json:"fair_share"`
	Busiest      string  `json:"busiest,omitempty"`
	Shift        float64 `json:"shift_mean"` // HostShift: mean over the phases of the transfers on the busiest link
	Ring         int     `json:"ring"`       // transfers on the busiest link of a ring in the order of hosts
	RandomRing   float64 `json:"random_ring_mean"`
	// WorstPairs is the most transfers on a link if each host sends to at most one and receives
	// from at most one other, chosen as badly as possible; WorstLink is that link.
	WorstPairs int    `json:"worst_pairs"`
	WorstLink  string `json:"worst_link,omitempty"`
	// Ports are the links between switches, in order of nodes and ports.
	Ports []PortUse `json:"ports"`

	by *surveyor
}

// Fault is an entry at which packets are lost.
type Fault struct {
	Switch string `json:"switch"`
	LID    int    `json:"lid"`
	Pairs  int    `json:"pairs"` // that lose their packets there
	Why    string `json:"why"`
}

// PortUse is what goes out of a switch's port to another switch.
type PortUse struct {
	Port         string `json:"port"`
	To           string `json:"to"`
	Destinations int    `json:"destinations"` // hosts
	Transfers    int    `json:"transfers"`    // of an exchange of all hosts
	WorstPairs   int    `json:"worst_pairs"`  // see Survey.WorstPairs
}

// rings is the number of random rings that are tried.
const rings = 20

// NewSurvey follows the packets from every host to the base LID of every other one. Hosts
// are the adapters that topology.Fabric.ConnectedHosts lists.
func NewSurvey(f *topology.Fabric, tables *lft.Tables, hosts []topology.EndPort) (*Survey, error) {
	s := &surveyor{runner: newRunner(f, tables), hosts: hosts, senders: make([]int32, len(f.Nodes)), faults: map[fault]int{}}
	s.uses = make([]use, len(s.target))
	s.waits = make([][]int32, len(s.target))
	r := &s.survey
	r.by = s
	r.Hosts = len(hosts)
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			r.Switches++
		}
	}
	for i := range hosts {
		s.senders[f.At(hosts[i].PortRef).Peer]++
	}
	tables.Exchange(f, hosts, s.follow)
	r.Pairs = r.Hosts * max(0, r.Hosts-1)
	s.listFaults()
	s.listPorts()
	r.CreditLoop = s.creditLoop()
	r.FairShare = s.fairShare()
	return r, s.patterns(tables)
}

// use is what uses a link.
type use struct {
	destinations, transfers int
	last                    int32   // 1 + the last destination that counted
	pairs                   []route // of leaves and destinations
}

// route is the packets from the hosts of a switch to a host.
type route struct{ leaf, to int32 }

type fault struct {
	node int32
	lid  ib.LID
}

type surveyor struct {
	*runner
	hosts   []topology.EndPort
	senders []int32 // [node] hosts on a switch
	uses    []use   // [link]
	waits   [][]int32
	faults  map[fault]int
	survey  Survey
}

// follow counts n packets from the hosts of a switch to host d: see lft.Tables.Exchange.
func (s *surveyor) follow(leaf int32, d, n int, way []topology.PortRef, lost int32) {
	before := int32(-1)
	for _, p := range way {
		link := s.first[p.Node] + int32(p.Port)
		s.pass(link, before, route{leaf, int32(d)}, n)
		before = link
	}
	if lost != topology.None {
		s.faults[fault{lost, s.hosts[d].LID}] += n
		s.survey.Lost += n
	}
}

// Cut counts the pairs of hosts whose packets use one of the cables at some switch ports.
func (r *Survey) Cut(ports ...topology.PortRef) int {
	s := r.by
	var cut []route
	for _, p := range ports {
		link := s.first[p.Node] + int32(p.Port)
		cut = append(cut, s.uses[link].pairs...)
		if to := s.target[link]; to.isSwitch {
			cut = append(cut, s.uses[s.first[to.node]+int32(to.port)].pairs...)
		}
	}
	slices.SortFunc(cut, func(a, b route) int { return cmp.Or(int(a.leaf-b.leaf), int(a.to-b.to)) })
	n := 0
	for _, c := range slices.Compact(cut) {
		if n += int(s.senders[c.leaf]); s.f.At(s.hosts[c.to].PortRef).Peer == c.leaf {
			n-- // a host does not send to itself
		}
	}
	return n
}

// entry is the port by which a switch sends packets on to a LID, lft.NoPath for none.
func (s *surveyor) entry(node int32, lid ib.LID) uint8 {
	if table := s.out[node]; int(lid) < len(table) && int(table[lid]) < len(s.f.Nodes[node].Ports) {
		return table[lid]
	}
	return lft.NoPath
}

// pass counts n packets on a link, which come by link before or from a host.
func (s *surveyor) pass(link, before int32, by route, n int) {
	u := &s.uses[link]
	if u.last != by.to+1 {
		u.last = by.to + 1
		u.destinations++
	}
	u.transfers += n
	u.pairs = append(u.pairs, by)
	if !s.target[link].isSwitch || before < 0 {
		return
	}
	for _, w := range s.waits[before] {
		if w == link {
			return
		}
	}
	s.waits[before] = append(s.waits[before], link)
}

// listFaults lists the faults in order of switches and LIDs.
func (s *surveyor) listFaults() {
	for node := range s.f.Nodes {
		for d := range s.hosts {
			if n := s.faults[fault{int32(node), s.hosts[d].LID}]; n > 0 {
				s.survey.Faults = append(s.survey.Faults, Fault{s.f.Nodes[node].Label(), int(s.hosts[d].LID), n, s.why(int32(node), d)})
			}
		}
	}
}

// why says what is wrong with an entry at which packets to host d are lost.
func (s *surveyor) why(node int32, d int) string {
	out := s.entry(node, s.hosts[d].LID)
	if out == lft.NoPath {
		return "no entry"
	}
	switch to := s.target[s.first[node]+int32(out)]; {
	case to.node == topology.None:
		return fmt.Sprintf("port %d is not up", out)
	case !to.isSwitch:
		return fmt.Sprintf("port %d leads to %s", out, s.f.Nodes[to.node].Label())
	}
	return fmt.Sprintf("port %d is part of a loop", out)
}

// listPorts sums up the links between switches.
func (s *surveyor) listPorts() {
	r := &s.survey
	for node := range s.f.Nodes {
		for p := range s.f.Nodes[node].Ports {
			link := s.first[node] + int32(p)
			to := s.target[link]
			u := &s.uses[link]
			if u.transfers > r.BusiestCable {
				r.BusiestCable, r.Busiest = u.transfers, s.cable(link)
			}
			if s.f.Nodes[node].Kind != topology.Switch || !to.isSwitch {
				continue
			}
			back := s.first[to.node] + int32(to.port)
			if link < back && u.transfers == 0 && s.uses[back].transfers == 0 {
				r.Unused++
			}
			worst := s.worstPairs(u.pairs)
			if worst > r.WorstPairs {
				r.WorstPairs, r.WorstLink = worst, s.cable(link)
			}
			r.Ports = append(r.Ports, PortUse{s.f.PortLabel(topology.PortRef{Node: int32(node), Port: uint8(p)}),
				s.f.PortLabel(topology.PortRef{Node: to.node, Port: to.port}), u.destinations, u.transfers, worst})
		}
	}
}

// fairShare bounds the busiest cable from below: what a switch's hosts send to one host goes
// by one of its cables to other switches, and a host receives from all others by one.
func (s *surveyor) fairShare() int {
	least := len(s.hosts) - 1
	for leaf, n := range s.senders {
		cables, n := len(s.f.Trunks(int32(leaf))), int(n)
		if n > 0 && cables > 0 {
			least = max(least, n*((len(s.hosts)-n+cables-1)/cables))
		}
	}
	return least
}

// worstPairs is the largest number of pairs, of different hosts on both sides, that use a
// link: a maximum matching of senders, by their switches, with destinations.
func (s *surveyor) worstPairs(pairs []route) int {
	if len(pairs) == 0 {
		return 0
	}
	index := map[int32]int32{}
	var from [][]int32 // [destination] leaves
	for _, p := range pairs {
		i, ok := index[p.to]
		if !ok {
			i = int32(len(from))
			index[p.to] = i
			from = append(from, nil)
		}
		from[i] = append(from[i], p.leaf)
	}
	taken := map[int32][]int32{} // [leaf] destinations matched with hosts of it
	var seen map[int32]bool
	var place func(d int32) bool
	place = func(d int32) bool {
		for _, leaf := range from[d] {
			if seen[leaf] {
				continue
			}
			seen[leaf] = true
			if len(taken[leaf]) < int(s.senders[leaf]) {
				taken[leaf] = append(taken[leaf], d)
				return true
			}
			for i, other := range taken[leaf] {
				if place(other) {
					taken[leaf][i] = d
					return true
				}
			}
		}
		return false
	}
	n := 0
	for d := range from {
		seen = map[int32]bool{}
		if place(int32(d)) {
			n++
		}
	}
	return n
}

// creditLoop looks for links that wait for each other in a circle (Dally and Seitz).
func (s *surveyor) creditLoop() []string {
	const (
		fresh = iota
		open
		done
	)
	state := make([]uint8, len(s.waits))
	type frame struct {
		link int32
		next int
	}
	for start := range s.waits {
		if state[start] != fresh {
			continue
		}
		path := []frame{{int32(start), 0}}
		state[start] = open
		for len(path) > 0 {
			top := &path[len(path)-1]
			if top.next == len(s.waits[top.link]) {
				state[top.link] = done
				path = path[:len(path)-1]
				continue
			}
			to := s.waits[top.link][top.next]
			top.next++
			switch state[to] {
			case fresh:
				state[to] = open
				path = append(path, frame{to, 0})
			case open:
				var loop []string
				for i := range path {
					if path[i].link == to || loop != nil {
						loop = append(loop, s.cable(path[i].link))
					}
				}
				return loop
			}
		}
	}
	return nil
}

// patterns runs a shift and rings.
func (s *surveyor) patterns(tables *lft.Tables) error {
	shift, err := Run(s.f, tables, HostShift(s.hosts))
	if err != nil {
		return err
	}
	s.survey.Shift = shift.Mean
	order := make([]int, len(s.hosts))
	for i := range order {
		order[i] = i
	}
	if s.survey.Ring, err = s.ring(tables, order); err != nil {
		return err
	}
	rng, sum := rand.New(rand.NewPCG(1, 1)), 0
	for range rings {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		most, err := s.ring(tables, order)
		if err != nil {
			return err
		}
		sum += most
	}
	s.survey.RandomRing = float64(sum) / rings
	return nil
}

// ring is the largest load of a link when each host sends to the next in an order.
func (s *surveyor) ring(tables *lft.Tables, order []int) (int, error) {
	rows := make([]Row, 0, len(order))
	for i := range order {
		src, dst := &s.hosts[order[i]], &s.hosts[order[(i+1)%len(order)]]
		if src.GUID != dst.GUID {
			rows = append(rows, Row{DLID: dst.LID, Src: src.GUID, Dst: dst.GUID})
		}
	}
	r, err := Run(s.f, tables, rows)
	if err != nil {
		return 0, err
	}
	return r.Max, nil
}
