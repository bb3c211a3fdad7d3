// Package failures plans a fabric with each of its parts dead, and with each pair of them.
package failures

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/maruel/natural"

	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/topology"
)

// Most is the largest number of parts that are dead at a time.
const Most = 2

// Part is a cable between switches, or a switch.
type Part struct {
	Label string
	ports []topology.PortRef // one of a cable, all of a switch that have a cable
	// The part is of these switches; the second is None if it is a switch itself.
	of [2]int32
}

// Parts lists the cables between switches, in order of their first ports, and the switches.
func Parts(f *topology.Fabric) []Part {
	var cables, switches []Part
	for i := range f.Nodes {
		node, n := int32(i), &f.Nodes[i]
		if n.Kind != topology.Switch {
			continue
		}
		s := Part{Label: n.Label(), of: [2]int32{node, topology.None}}
		for p := range n.Ports {
			at := topology.PortRef{Node: node, Port: uint8(p)}
			if !n.Ports[p].Connected() {
				continue
			}
			s.ports = append(s.ports, at)
			peer := topology.PortRef{Node: n.Ports[p].Peer, Port: n.Ports[p].PeerPort}
			if f.Trunk(at) && (peer.Node > node || peer.Node == node && peer.Port > at.Port) {
				cables = append(cables, Part{f.CableLabel(at), []topology.PortRef{at}, [2]int32{node, peer.Node}})
			}
		}
		if len(s.ports) > 0 {
			switches = append(switches, s)
		}
	}
	return append(cables, switches...)
}

// holds reports whether p is a switch, and q is a cable of it.
func (p *Part) holds(q *Part) bool {
	return p.of[1] == topology.None && q.of[1] != topology.None && (q.of[0] == p.of[0] || q.of[1] == p.of[0])
}

// Case is a set of parts that are dead at the same time, by their indices in ascending order.
type Case []int32

// Cases lists every part alone and then, for two at a time, every pair of them, without the
// pairs of a switch and a cable of it.
func Cases(parts []Part, atATime int) []Case {
	var cases []Case
	for i := range parts {
		cases = append(cases, Case{int32(i)})
	}
	for i := range parts {
		for j := i + 1; j < len(parts) && atATime > 1; j++ {
			if !parts[i].holds(&parts[j]) && !parts[j].holds(&parts[i]) {
				cases = append(cases, Case{int32(i), int32(j)})
			}
		}
	}
	return cases
}

// Planned holds the figures of a plan.
type Planned struct {
	phasetable.Length
	phasetable.Load
	Base        *phasetable.Length `json:"base,omitempty"` // nil without a plan for base LIDs
	Unreachable int                `json:"unreachable_pairs"`
}

// String describes the plan in one line.
func (p *Planned) String() string {
	pairs := "pairs"
	if p.Unreachable == 1 {
		pairs = "pair"
	}
	return fmt.Sprintf("%d phases without a collision (bound %d), %d %s unreachable", p.Phases, p.LowerBound, p.Unreachable, pairs)
}

// Failure is what a case costs.
type Failure struct {
	Dead     []string `json:"dead"`
	Cut      int      `json:"cut_pairs"`            // pairs of hosts that lose packets until the subnet manager has routed again
	Hosts    int      `json:"lost_hosts,omitempty"` // hosts that are left without a cable
	*Planned          // nil if no plan can be made
	Error    string   `json:"error,omitempty"` // why no plan can be made
}

// What lists the dead parts.
func (f *Failure) What() string { return strings.Join(f.Dead, ", ") }

// Plan plans a fabric with the parts of each case dead. Progress is called after each. Without
// tables, which may be nil, no pairs count as cut.
func Plan(ctx context.Context, f *topology.Fabric, tables *sim.Survey, parts []Part, cases []Case,
	plan func(context.Context, *topology.Fabric) (*Planned, error), progress func()) ([]Failure, error) {
	failures := make([]Failure, len(cases))
	hosts := len(f.ConnectedHosts())
	_, err := parallel.Each(ctx, len(cases), runtime.NumCPU(), func(int) func(int) error {
		return func(i int) error {
			var ports []topology.PortRef
			x := &failures[i]
			for _, part := range cases[i] {
				ports = append(ports, parts[part].ports...)
				x.Dead = append(x.Dead, parts[part].Label)
			}
			if tables != nil {
				x.Cut = tables.Cut(ports...)
			}
			left := f.Without(ports...)
			x.Hosts = hosts - len(left.ConnectedHosts())
			p, err := plan(ctx, left)
			if err != nil && ctx.Err() == nil {
				x.Error, err = err.Error(), nil
			}
			x.Planned = p
			progress()
			return err
		}
	})
	return failures, err
}

// Rank sorts by the length of the exchange, those without a plan first, then by the pairs that
// are cut.
func Rank(failures []Failure) {
	length := func(x *Failure) int {
		if x.Planned == nil {
			return 1 << 30
		}
		return x.Phases
	}
	slices.SortStableFunc(failures, func(x, y Failure) int {
		return cmp.Or(cmp.Compare(length(&y), length(&x)), cmp.Compare(y.Cut, x.Cut), natural.Compare(x.What(), y.What()))
	})
}

// Summary sums up the failures of a number of parts at a time.
type Summary struct {
	Parts     int `json:"parts"` // dead at a time
	Failures  int `json:"failures"`
	NoPlan    int `json:"no_plan"`
	CutOff    int `json:"cut_off"` // failures after which hosts have no path to some or all others
	Longest   int `json:"longest"`
	OverBound int `json:"over_bound"` // plans that are longer than their bound
}

// Summarize sums failures up, for each number of parts.
func Summarize(failures []Failure) []Summary {
	sums := make([]Summary, Most)
	for i := range failures {
		x := &failures[i]
		s := &sums[len(x.Dead)-1]
		s.Parts = len(x.Dead)
		s.Failures++
		if x.Planned == nil {
			s.NoPlan++
			continue
		}
		s.Longest = max(s.Longest, x.Phases)
		if x.Unreachable > 0 || x.Hosts > 0 {
			s.CutOff++
		}
		if x.Phases > x.LowerBound {
			s.OverBound++
		}
	}
	return slices.DeleteFunc(sums, func(s Summary) bool { return s.Failures == 0 })
}
