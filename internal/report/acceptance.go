package report

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/internal/failures"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/topology"
)

// Acceptance is a report of a fabric that is new, or that has been repaired.
type Acceptance struct {
	Made     time.Time `json:"made_at"`
	Version  string    `json:"release"` // of forsctl
	Hosts    int       `json:"hosts"`
	Switches int       `json:"switches"`
	// Cabling lists differences from the intended topology. Without one, it lists the cables that
	// are slower than others of their kind.
	Cabling  *Comparison `json:"cabling"`
	Findings []string    `json:"findings"`           // in words; those that Cabling does not list
	Measured []Measured  `json:"measured,omitempty"` // cables by exchanges, the slowest first
	// Tables describes the given tables on the fabric; nil without tables.
	Tables  *sim.Survey       `json:"tables,omitempty"`
	Planned *failures.Planned `json:"planned,omitempty"`
	NoPlan  string            `json:"no_plan,omitempty"` // why there is none
	// Summary sums up Failures, which has every failure, the longest exchange first.
	Summary  []failures.Summary `json:"summary"`
	Failures []failures.Failure `json:"failures"`
	Missing  []int              `json:"missing_shards,omitempty"` // their failures have not been planned
	Repairs  []Repair           `json:"repairs"`                  // the shortest exchange first
	Matrix   *Matrix            `json:"-"`
}

// Repair is the plan once a fault is mended.
type Repair struct {
	Fault int    `json:"fault"` // see Difference.Fault
	What  string `json:"what"`
	// Slowdown is by how much longer phases still take than those without a slow cable.
	Slowdown          float64 `json:"slowdown,omitempty"`
	*failures.Planned         // nil if no plan can be made even then
	Error             string  `json:"error,omitempty"`
}

// Accepted has the inputs of an acceptance.
type Accepted struct {
	Now      time.Time
	Version  string // of forsctl
	Fabric   *topology.Fabric
	Hosts    []topology.EndPort
	Wanted   []Wanted       // nil without an intended topology
	Tables   *sim.Survey    // nil without tables
	Measured []api.Measured // exchanges
	Tree     func(*topology.Fabric) (*topology.FatTree, error)
	Plan     func(context.Context, *topology.Fabric) (*failures.Planned, error)
	// PlanMended plans a fabric that may have cables which Fabric does not have.
	PlanMended func(context.Context, *topology.Fabric) (*failures.Planned, error)
}

// Accept examines a fabric. It leaves the failures to its caller.
func Accept(ctx context.Context, in Accepted) (*Acceptance, error) {
	a := &Acceptance{Made: in.Now, Version: in.Version, Hosts: len(in.Hosts), Tables: in.Tables, Findings: []string{}, Repairs: []Repair{}, Matrix: &Matrix{}}
	for i := range in.Fabric.Nodes {
		if in.Fabric.Nodes[i].Kind == topology.Switch {
			a.Switches++
		}
	}
	cabling := describe.Cabling(in.Fabric, in.Now)
	wanted := in.Wanted
	if wanted == nil {
		wanted = ofCabling(cabling)
		for i := range wanted {
			wanted[i].Gbps = 0
		}
	}
	var err error
	if a.Cabling, err = Compare(wanted, cabling, true); err != nil {
		return nil, err
	}
	a.Measured = measured(in.Measured, cabling)
	a.Cabling.addSlow(a.Measured)
	if tree, err := in.Tree(in.Fabric); err == nil {
		t := describe.Topology(tree, in.Now)
		a.Matrix = matrixOf(t)
		for _, x := range t.Findings {
			shape := x.Code == topology.LeafBinds || x.Code == topology.FewSpineCables
			if shape || in.Wanted == nil && x.Code != topology.CableDegraded { // Cabling has the others
				a.Findings = append(a.Findings, x.Text)
			}
		}
	}
	if a.Planned, err = in.Plan(ctx, in.Fabric); err != nil {
		a.NoPlan = err.Error()
	}
	return a, a.repair(ctx, in)
}

// repair plans the fabric with each fault mended.
func (a *Acceptance) repair(ctx context.Context, in Accepted) error {
	byFault := map[int][]*Difference{}
	for i := range a.Cabling.Differences {
		d := &a.Cabling.Differences[i]
		byFault[d.Fault] = append(byFault[d.Fault], d)
	}
	for _, fault := range slices.Sorted(maps.Keys(byFault)) {
		mended := in.Fabric.Clone()
		connected := 0
		for _, d := range byFault[fault] {
			if mend(mended, d) {
				connected++
			}
		}
		if connected == 0 {
			continue
		}
		r := Repair{Fault: fault, What: byFault[fault][0].Cable, Slowdown: a.Cabling.stays(fault)}
		if n := len(byFault[fault]) - 1; n > 0 {
			r.What += fmt.Sprintf(" and %d more", n)
		}
		var err error
		if r.Planned, err = in.PlanMended(ctx, mended); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.Error = err.Error()
		}
		a.Repairs = append(a.Repairs, r)
	}
	length := func(r *Repair) (phases float64, base, busiest int) {
		p := r.Planned
		if p == nil {
			return math.MaxFloat64, 0, 0
		}
		if p.Base != nil {
			base = p.Base.Phases
		}
		return float64(p.Phases) * (1 + r.Slowdown), base, p.BusiestCable
	}
	slices.SortStableFunc(a.Repairs, func(x, y Repair) int {
		p, b, c := length(&x)
		q, d, e := length(&y)
		return cmp.Or(cmp.Compare(p, q), cmp.Compare(b, d), cmp.Compare(c, e))
	})
	return nil
}

// mend puts an intended cable between switches into its ports, and reports whether it has. A slow
// one is in its ports already.
func mend(f *topology.Fabric, d *Difference) bool {
	if d.Kind == Slow {
		return true
	}
	if d.Kind != Missing && d.Kind != Swapped && d.Kind != Degraded {
		return false
	}
	var ends [2]topology.PortRef
	for i, p := range d.ends {
		ends[i] = topology.PortRef{Node: f.Find(p.node), Port: p.port}
		if ends[i].Node == topology.None || f.Nodes[ends[i].Node].Kind != topology.Switch || int(p.port) >= len(f.Nodes[ends[i].Node].Ports) {
			return false
		}
	}
	rate := ib.Rate{}
	for _, node := range []int32{ends[0].Node, ends[1].Node} {
		for _, port := range f.Trunks(node) {
			if now := f.At(topology.PortRef{Node: node, Port: port}).Rate; rate.Below(now) || !rate.Known() {
				rate = now
			}
		}
	}
	for _, end := range ends {
		f.Disconnect(end)
	}
	f.Connect(ends[0], ends[1], rate)
	return true
}

// matrixOf lists the upward cables of leaves, and of mids.
func matrixOf(t *api.Topology) *Matrix {
	m := &Matrix{}
	for i := range t.Leaves {
		m.Rows = append(m.Rows, Row{t.Leaves[i].Name, t.Leaves[i].Cables})
	}
	for i := range t.Mids {
		m.Rows = append(m.Rows, Row{t.Mids[i].Name, t.Mids[i].Cables})
	}
	return m
}

// What describes a difference in a line.
func (d *Difference) What() string { return cmp.Or(d.Cable, d.Node) }

// mostWorst is the number of failures on the page.
const mostWorst = 20

// Worst returns the worst failures.
func (a *Acceptance) Worst() []failures.Failure { return a.Failures[:min(mostWorst, len(a.Failures))] }

//go:embed acceptance.html
var acceptanceText string

var acceptancePage = template.Must(template.Must(page.Clone()).New("acceptance").Funcs(template.FuncMap{"lengths": drawLengths, "tenths": func(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }}).Parse(acceptanceText))

// WriteHTML writes the acceptance as a single page that loads no other resources.
func (a *Acceptance) WriteHTML(out io.Writer) error { return acceptancePage.Execute(out, a) }

// drawLengths draws how many failures lead to exchanges of which length.
func drawLengths(a *Acceptance) Picture {
	const high, most = 120.0, 16
	counts := map[int]int{}
	for i := range a.Failures {
		if a.Failures[i].Planned != nil {
			counts[a.Failures[i].Phases]++
		}
	}
	lengths := slices.Sorted(maps.Keys(counts))
	step := max(1, (len(lengths)+most-1)/most)
	p := Picture{W: wide, H: high + 34, About: "how many failures lead to exchanges of which length"}
	tallest := 1
	var bars []int
	for i := 0; i < len(lengths); i += step {
		n := 0
		for _, length := range lengths[i:min(i+step, len(lengths))] {
			n += counts[length]
		}
		bars = append(bars, n)
		tallest = max(tallest, n)
	}
	for i, n := range bars {
		x, h := margin+float64(i)*50, high*float64(n)/float64(tallest)
		name := fmt.Sprint(lengths[i*step])
		if last := lengths[min((i+1)*step, len(lengths))-1]; last > lengths[i*step] {
			name += fmt.Sprintf("–%d", last)
		}
		p.Boxes = append(p.Boxes, Box{x, 14 + high - h, 44, max(1, h), "bar", fmt.Sprintf("%s phases: %d", name, n)})
		p.Labels = append(p.Labels, Label{x, high + 28, name}, Label{x + 12, 10 + high - h, fmt.Sprint(n)})
	}
	return p
}

// Measured is a cable at its rate and as exchanges have measured it.
type Measured struct {
	Cable string  `json:"cable"`
	Rate  string  `json:"rate"` // such as 4xHDR
	Gbps  float64 `json:"rate_gbps"`
	api.MeasuredCable
}

// measured lists the measured cables of a fabric, the slowest first. Of a cable that several
// exchanges have measured it takes the one with the most transfers.
func measured(exchanges []api.Measured, cabling *api.Cabling) []Measured {
	type ends [2]place
	best := map[ends]*api.MeasuredCable{}
	for i := range exchanges {
		for j := range exchanges[i].Cables {
			c := &exchanges[i].Cables[j]
			at := ends{{node: c.A.GUID, port: c.A.Port}, {node: c.B.GUID, port: c.B.Port}}
			if best[at] == nil || best[at].Transfers < c.Transfers {
				best[at] = c
			}
		}
	}
	var out []Measured
	for i := range cabling.Links {
		l := &cabling.Links[i]
		if c := best[ends{{node: l.A.GUID, port: l.A.Port}, {node: l.B.GUID, port: l.B.Port}}]; c != nil {
			out = append(out, Measured{fmt.Sprintf("%s port %d – %s port %d", l.A.Name, l.A.Port, l.B.Name, l.B.Port), l.Rate, ib.ParseRate(l.Rate).Gbps(), *c})
		}
	}
	slices.SortStableFunc(out, func(a, b Measured) int { return cmp.Compare(b.Slowdown, a.Slowdown) })
	return out
}

// addSlow adds the slow cables to the differences, except those that are below their rate or in
// wrong ports, which explains it.
func (c *Comparison) addSlow(all []Measured) {
	for i := range all {
		m := &all[i]
		ends := [2]place{{node: m.A.GUID, port: m.A.Port}, {node: m.B.GUID, port: m.B.Port}}
		known := slices.ContainsFunc(c.Differences, func(d Difference) bool {
			return d.ends == ends || d.ends == [2]place{ends[1], ends[0]}
		})
		if !m.Slow || known {
			continue
		}
		c.Faults++
		c.Counts[Slow]++
		c.Differences = append(c.Differences, Difference{Kind: Slow, Cable: m.Cable, Fault: c.Faults, ends: ends, slowdown: m.Slowdown,
			Now: []string{fmt.Sprintf("transfers take %.1f %% ± %.1f %% longer", 100*m.Slowdown, 100*m.Error)}})
	}
}

// stays is by how much longer than others the transfers of some cable take once a fault is mended.
func (c *Comparison) stays(fault int) (most float64) {
	for i := range c.Differences {
		if d := &c.Differences[i]; d.Fault != fault {
			most = max(most, d.slowdown)
		}
	}
	return most
}
