package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/internal/failures"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// planter puts faults into a fabric.
type planter struct {
	f             *topology.Fabric
	trunks, hosts []api.Link // that have no fault, in random order
	leaves        []int32
	spines        []int32
	named         []string // cables and nodes with faults
	faults        int
	slowed        map[place]string // by one end, the name of a cable that is slow though its rate is right
}

func newPlanter(f *topology.Fabric, rng *rand.Rand) *planter {
	p := &planter{f: f.Clone(), slowed: map[place]string{}}
	for _, l := range describe.Cabling(f, now).Links {
		if l.A.Host != 0 || l.B.Host != 0 {
			p.hosts = append(p.hosts, l)
		} else {
			p.trunks = append(p.trunks, l)
		}
	}
	for i := range f.Nodes {
		switch {
		case strings.HasPrefix(f.Nodes[i].Name, "Leaf"):
			p.leaves = append(p.leaves, int32(i))
		case strings.HasPrefix(f.Nodes[i].Name, "Spine"):
			p.spines = append(p.spines, int32(i))
		}
	}
	for _, list := range [][]api.Link{p.trunks, p.hosts} {
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	for _, list := range [][]int32{p.leaves, p.spines} {
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return p
}

func (p *planter) at(e *api.LinkEnd) topology.PortRef {
	return topology.PortRef{Node: p.f.Find(e.GUID), Port: e.Port}
}

// take takes a cable that has no fault.
func (p *planter) take(from *[]api.Link) *api.Link {
	l := &(*from)[0]
	*from = (*from)[1:]
	p.named = append(p.named, fmt.Sprintf("%s port %d – %s port %d", l.A.Name, l.A.Port, l.B.Name, l.B.Port))
	return l
}

func (p *planter) slow(from *[]api.Link, rate ib.Rate) {
	l := p.take(from)
	p.f.Disconnect(p.at(&l.A))
	p.f.Connect(p.at(&l.A), p.at(&l.B), rate)
}

// timed is what an exchange over all cables tells.
func (p *planter) timed() []api.Measured {
	m := api.Measured{}
	for i, l := range describe.Cabling(p.f, now).Links {
		c := api.MeasuredCable{A: l.A, B: l.B, Gbps: 180, Slowdown: .001 * float64(i%7), Error: .01, Transfers: 9}
		if p.slowed[place{node: l.A.GUID, port: l.A.Port}] != "" {
			c.Gbps, c.Slowdown, c.Slow = 140, .28, true
		}
		if strings.Contains(l.Rate, "EDR") || strings.HasPrefix(l.Rate, "2x") { // those below their rate are slow, too
			c.Gbps, c.Slowdown, c.Slow = 90, 1, true
		}
		m.Cables = append(m.Cables, c)
	}
	return []api.Measured{m}
}

// plant plants a fault of one of eleven kinds.
func (p *planter) plant(kind int) {
	p.faults++
	full := ib.Rate{Width: 4, Speed: ib.HDR}
	switch kind {
	case 0, 1: // swapped: cables of switches, or of hosts
		from := []*[]api.Link{&p.trunks, &p.hosts}[kind]
		x, y := p.take(from), p.take(from)
		p.f.Disconnect(p.at(&x.A))
		p.f.Disconnect(p.at(&y.A))
		p.f.Connect(p.at(&x.A), p.at(&y.B), full)
		p.f.Connect(p.at(&y.A), p.at(&x.B), full)
	case 2:
		p.slow(&p.trunks, ib.Rate{Width: 2, Speed: ib.HDR})
	case 3:
		p.slow(&p.trunks, ib.Rate{Width: 4, Speed: ib.EDR})
	case 4:
		p.slow(&p.hosts, ib.Rate{Width: 1, Speed: ib.HDR})
	case 5, 6: // missing
		p.f.Disconnect(p.at(&p.take([]*[]api.Link{&p.trunks, &p.hosts}[kind-5]).A))
	case 7: // a cable where two should be, between the wrong switches
		x, y := p.take(&p.trunks), p.take(&p.trunks)
		p.f.Disconnect(p.at(&x.A))
		p.f.Disconnect(p.at(&y.A))
		p.f.Connect(p.at(&x.A), p.at(&y.A), full)
	case 8: // a wrong name
		n := &p.f.Nodes[p.spines[0]]
		p.spines = p.spines[1:]
		p.named = append(p.named, n.Name)
		n.Name = "MF0;new-" + n.Name
	case 9: // two leaves with each other's names
		a, b := &p.f.Nodes[p.leaves[0]], &p.f.Nodes[p.leaves[1]]
		p.leaves = p.leaves[2:]
		p.named = append(p.named, a.Name, b.Name)
		a.Name, b.Name = b.Name, a.Name
		p.faults++
	case 10: // slow, at its rate
		l := p.take([]*[]api.Link{&p.trunks, &p.hosts}[p.faults%2])
		p.slowed[place{node: l.A.GUID, port: l.A.Port}] = p.named[len(p.named)-1]
	}
}

// TestPlantedFaults plants thirteen faults, and finds these and nothing else, by a CSV without
// speeds, by one with them, and by a dump, and slow cables by the times of an exchange.
func TestPlantedFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spines := rapid.IntRange(8, 14).Draw(t, "spines")
		f := fabgen.Generate(fabgen.Spec{Spines: spines, Leaves: rapid.IntRange(6, spines).Draw(t, "leaves"), LMC: 1, Shuffle: rapid.Uint64Range(0, 5).Draw(t, "shuffle")})
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		p := newPlanter(f, rng)
		kinds := rng.Perm(11)
		for i := range 13 {
			if k := kinds[i%11]; i < 11 || k != 9 {
				p.plant(k)
			}
		}
		csv := asCSV(describe.Cabling(f, now), rng)
		for name, intended := range map[string]string{"CSV": csv, "CSV without speeds": strings.ReplaceAll(csv, ",HDR,", ",,"), "dump": string(fabgen.Ibnetdiscover(f))} {
			wanted, err := ReadIntended([]byte(intended))
			if err != nil {
				t.Fatal(err)
			}
			c, err := Compare(wanted, describe.Cabling(p.f, now), true)
			if err != nil {
				t.Fatal(err)
			}
			c.addSlow(measured(p.timed(), describe.Cabling(p.f, now)))
			if c.Counts[Slow] != len(p.slowed) {
				t.Errorf("by the %s: %d slow cables, want %v", name, c.Counts[Slow], p.slowed)
			}
			if c.Faults != p.faults {
				t.Errorf("by the %s: %d faults, want %d", name, c.Faults, p.faults)
			}
			var named []string
			for i := range c.Differences {
				what := c.Differences[i].What()
				if c.Differences[i].Kind == Slow {
					what = p.slowed[c.Differences[i].ends[0]] // it has the names that its nodes have now
				}
				if node, guid, ok := strings.Cut(what, " ("); ok && strings.HasPrefix(guid, "0x") {
					what = node
				}
				if a, b, ok := strings.Cut(what, " – "); ok && !slices.Contains(p.named, what) {
					what = b + " – " + a // the CSV has it so
				}
				named = append(named, what)
			}
			slices.Sort(named)
			want := slices.Sorted(slices.Values(p.named))
			if !slices.Equal(named, want) {
				t.Errorf("by the %s:\n%q, want\n%q: %+v", name, named, want, c.Differences)
			}
		}
	})
}

// TestReplaced checks that a switch with a new GUID and its old name is one fault, and that its
// cables are none.
func TestReplaced(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3})
	g := f.Clone()
	at := g.Find(fabgen.SpineGUID + 1)
	g.Nodes[at].GUID += 0x1000
	c := compare(t, string(fabgen.Ibnetdiscover(f)), g)
	if c.Faults != 1 || c.Counts[Renamed] != 1 || !strings.Contains(c.Differences[0].Node, "Spine001") || c.Differences[0].Now[0] != g.Nodes[at].GUID.String() {
		t.Errorf("%+v", c)
	}
}

// accepted examines a fabric whose plan is as long as it lacks cables.
func accepted(t *testing.T, f *topology.Fabric, intended []Wanted, exchanges ...api.Measured) *Acceptance {
	t.Helper()
	fit := func(f *topology.Fabric) (*topology.FatTree, error) {
		base, err := topology.Recognise(f)
		if err != nil {
			return nil, err
		}
		return topology.Fit(f, base, nil)
	}
	plan := func(_ context.Context, f *topology.Fabric) (*failures.Planned, error) {
		cables := 0
		for i := range f.Nodes {
			for _, p := range f.Trunks(int32(i)) {
				if f.Nodes[i].Kind == topology.Switch && !f.At(topology.PortRef{Node: int32(i), Port: p}).Rate.Below(ib.Rate{Width: 4, Speed: ib.HDR}) {
					cables++
				}
			}
		}
		if cables < 10 {
			return nil, errors.New("too few cables")
		}
		return &failures.Planned{Length: phasetable.Length{Phases: 100 - cables, LowerBound: 1}}, nil
	}
	a, err := Accept(t.Context(), Accepted{Now: now, Version: "v1", Fabric: f, Hosts: f.ConnectedHosts(), Wanted: intended, Measured: exchanges, Tree: fit, Plan: plan, PlanMended: plan})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAcceptMeasured examines a fabric with two slow cables, one of them a host's. An exchange
// is as long as its slowest cable, which is to be repaired first.
func TestAcceptMeasured(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3})
	var m api.Measured
	for i, l := range describe.Cabling(f, now).Links {
		c := api.MeasuredCable{A: l.A, B: l.B, Gbps: 190, Transfers: 8}
		switch i {
		case 4:
			c.Gbps, c.Slowdown, c.Slow = 95, 1, true
		case 1:
			c.Gbps, c.Slowdown, c.Slow = 158, .2, true
		}
		m.Cables = append(m.Cables, c)
	}
	other := api.Measured{Cables: []api.MeasuredCable{{A: m.Cables[1].A, B: m.Cables[1].B, Gbps: 190, Transfers: 3}}}
	a := accepted(t, f, nil, m, other)
	if a.Cabling.Faults != 2 || len(a.Measured) != 18 || a.Measured[0].Gbps != 200 || a.Measured[0].MeasuredCable.Gbps != 95 || len(a.Repairs) != 2 ||
		a.Repairs[0].What != a.Measured[0].Cable || a.Repairs[0].Slowdown != .2 || a.Repairs[1].Slowdown != 1 {
		t.Errorf("%+v, %+v, %+v", a.Cabling, a.Repairs, a.Measured[0])
	}
	var page bytes.Buffer
	if err := a.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"18 cables, the slowest first", "<td>95</td>", "slow", "<td>20.0 %</td>"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page does not have %q", want)
		}
	}
}

// TestAccept examines a whole fabric, one with a slow cable and nothing to compare with, and one
// in which two faults can be mended.
func TestAccept(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3})
	a := accepted(t, f, nil)
	if a.Cabling.Faults != 0 || a.Planned.Phases != 100-18 || len(a.Repairs) != 0 || len(a.Matrix.Rows) != 3 || a.Hosts != 9 || a.Switches != 6 {
		t.Errorf("%+v", a)
	}
	g := f.Clone()
	leaf := g.Find(fabgen.LeafGUID)
	slow := topology.PortRef{Node: leaf, Port: g.Trunks(leaf)[0]}
	other := topology.PortRef{Node: g.At(slow).Peer, Port: g.At(slow).PeerPort}
	g.Connect(slow, other, ib.Rate{Width: 1, Speed: ib.HDR})
	a = accepted(t, g, nil)
	if a.Cabling.Faults != 1 || a.Cabling.Differences[0].Kind != Degraded || len(a.Repairs) != 1 || a.Repairs[0].Phases != 100-18 || a.Planned.Phases != 100-16 {
		t.Errorf("%+v, %+v", a.Cabling, a.Repairs)
	}
	x, y := g.Trunks(leaf)[1], g.Trunks(leaf)[2]
	g.Disconnect(topology.PortRef{Node: leaf, Port: x})
	ends := [2]topology.PortRef{{Node: leaf, Port: y}, {Node: g.Nodes[leaf].Ports[y].Peer, Port: g.Nodes[leaf].Ports[y].PeerPort}}
	g.Disconnect(ends[0])
	g.Connect(ends[0], ends[1], ib.Rate{Width: 1, Speed: ib.HDR})
	wanted, err := ReadIntended(fabgen.Ibnetdiscover(f))
	if err != nil {
		t.Fatal(err)
	}
	a = accepted(t, g, wanted)
	if a.Cabling.Faults != 3 || len(a.Repairs) != 3 || a.Planned.Phases != 100-12 || a.Repairs[0].Phases != 100-14 {
		t.Errorf("%+v, %+v", a.Cabling, a.Repairs)
	}
	a.Failures = []failures.Failure{{Dead: []string{"<b>"}, Planned: &failures.Planned{Length: phasetable.Length{Phases: 7}}}, {Dead: []string{"x", "y"}, Error: "none"}}
	a.Summary = failures.Summarize(a.Failures)
	var page bytes.Buffer
	if err := a.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"9 hosts and 6 switches", "<b>3</b>", "What to repair first", "Which failures would hurt", "&lt;b&gt;", "7 phases: 1", "86"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	b := f.Clone() // what cannot be planned is reported still
	for _, p := range b.Trunks(leaf) {
		b.Disconnect(topology.PortRef{Node: leaf, Port: p})
	}
	for _, p := range b.Trunks(b.Find(fabgen.LeafGUID + 1))[1:] {
		b.Disconnect(topology.PortRef{Node: b.Find(fabgen.LeafGUID + 1), Port: p})
	}
	if a = accepted(t, b, wanted); a.Planned != nil || a.NoPlan == "" || a.Cabling.Faults != 5 || a.Repairs[0].Planned == nil {
		t.Errorf("%+v", a)
	}
}
