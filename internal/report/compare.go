package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// The kinds of differences.
const (
	Missing  = "missing"  // the cable is down or absent, and both its ports are free
	Extra    = "extra"    // not intended, and no intended cable uses either of its ports
	Swapped  = "swapped"  // a different cable is in one or both of its ports, or it is in others of its nodes
	Degraded = "degraded" // its rate is too low
	Slow     = "slow"     // its transfers take longer than others
	Renamed  = "renamed"  // a node has another name or GUID
)

// order is the order of the kinds in a comparison.
var order = map[string]int{Missing: 0, Swapped: 1, Degraded: 2, Renamed: 3, Extra: 4}

// Difference is a cable that differs from the intended one, or a node.
type Difference struct {
	Kind  string   `json:"kind"`            // missing, extra, swapped, degraded, slow or renamed
	Cable string   `json:"cable,omitempty"` // the intended cable; for an extra one, the actual cable
	Node  string   `json:"node,omitempty"`  // of a renamed one, its intended name
	Now   []string `json:"now,omitempty"`   // the contents of its ports, its rate, or the node's name or GUID
	Line  int      `json:"line,omitempty"`  // in the file with the intended topology
	// Fault numbers the faults from 1 on: cables in each other's ports are one.
	Fault int `json:"fault"`

	ends     [2]place // of the cable
	uses     []int    // of a swapped one, the links in its ports, or between its nodes
	slowdown float64  // of a slow one, as a part of the time of others
}

// Comparison compares the fabric with its intended cabling.
type Comparison struct {
	Cables      int            `json:"cables"` // intended cables
	Faults      int            `json:"faults"` // see Difference.Fault
	Counts      map[string]int `json:"counts"` // differences by kind
	Differences []Difference   `json:"differences"`
}

// place is a port of the fabric. An absent node is represented by its name.
type place struct {
	node ib.GUID
	name string
	port uint8
}

// wiring is the actual cabling.
type wiring struct {
	links  []api.Link
	at     map[place]int        // index of the link at a port
	named  map[string][]ib.GUID // nodes by description and by device name, as nameKey returns them
	byPort map[ib.GUID]place    // by the GUID of a host port
	nameOf map[ib.GUID]string
	heirs  map[ib.GUID]ib.GUID // nodes in the place of those that are gone
	moved  map[string]bool     // names of nodes that rename has found
	speeds map[bool]float64    // see usual
}

func newWiring(c *api.Cabling) *wiring {
	w := &wiring{links: c.Links, at: map[place]int{}, named: map[string][]ib.GUID{}, byPort: map[ib.GUID]place{}, nameOf: map[ib.GUID]string{}, heirs: map[ib.GUID]ib.GUID{}, moved: map[string]bool{}}
	for i := range c.Links {
		for _, e := range []*api.LinkEnd{&c.Links[i].A, &c.Links[i].B} {
			p := place{node: e.GUID, port: e.Port}
			w.at[p] = i
			names := []string{e.Name}
			if d := ofDevice(e.Name); d != nil {
				names = append(names, d.name+d.board)
			}
			for _, name := range names {
				if name = nameKey(name); name != "" && !slices.Contains(w.named[name], e.GUID) {
					w.named[name] = append(w.named[name], e.GUID)
				}
			}
			if w.nameOf[e.GUID] = e.Name; e.Host != 0 {
				w.byPort[e.Host] = p
			}
		}
	}
	return w
}

// device is the device that a switch belongs to, as its description names it.
type device struct {
	name  string
	board string // of a director, such as /L16/U2
}

var (
	deviceName = regexp.MustCompile(`^(?:[^;]*;)?([^:;]+):[^:/]+(?:(/[LS][0-9]+)/U([0-9]+)|/U1)$`)
	padded     = regexp.MustCompile(`/([ls])0+([0-9])`)
)

// ofDevice parses a description such as "MF0;core-1:MCS8500/L16/U2" or "MF0;rack-1:MQM8700/U1".
// In any other format it returns nil.
func ofDevice(description string) *device {
	m := deviceName.FindStringSubmatch(description)
	switch {
	case m == nil:
		return nil
	case m[2] == "":
		return &device{name: m[1]}
	}
	return &device{m[1], m[2] + "/U" + m[3]}
}

// nameKey normalizes a name: lower case, and board numbers without leading zeros.
func nameKey(name string) string { return padded.ReplaceAllString(strings.ToLower(name), "/$1$2") }

// inside reports whether a link is internal to a director, where operators plug no cables.
func (w *wiring) inside(i int) bool {
	a, b := ofDevice(w.links[i].A.Name), ofDevice(w.links[i].B.Name)
	return a != nil && b != nil && a.board != "" && b.board != "" && strings.EqualFold(a.name, b.name)
}

// find returns the port that an end refers to.
func (w *wiring) find(e End) (place, error) {
	if p, is := w.byPort[e.Host]; is && e.Host != 0 {
		return p, nil
	}
	if e.GUID != 0 {
		return place{node: cmp.Or(w.heirs[e.GUID], e.GUID), port: e.Port}, nil
	}
	if e.Host != 0 {
		return place{node: e.Host}, nil // the host is absent
	}
	name := nameKey(e.Name)
	switch nodes := w.named[name]; len(nodes) {
	case 0:
		return place{name: name, port: e.Port}, nil
	case 1:
		return place{node: nodes[0], port: e.Port}, nil
	default:
		return place{}, fmt.Errorf("%d nodes are called %s, such as %s and %s: name them by their GUIDs", len(nodes), e.Name, nodes[0], nodes[1])
	}
}

// text describes a link in words.
func (w *wiring) text(i int) string {
	end := func(e *api.LinkEnd) End { return End{GUID: e.GUID, Name: e.Name, Port: e.Port} }
	return (&Wanted{A: end(&w.links[i].A), B: end(&w.links[i].B)}).String()
}

// Compare compares the actual cabling with the intended one. If usual, a cable without an
// intended speed must have that of most cables of its kind.
func Compare(wanted []Wanted, c *api.Cabling, usual bool) (*Comparison, error) {
	w := newWiring(c)
	out := &Comparison{Cables: len(wanted), Counts: map[string]int{Missing: 0, Extra: 0, Swapped: 0, Degraded: 0, Renamed: 0}, Differences: w.rename(wanted)}
	meant := map[place]bool{}
	for i := range wanted {
		x := &wanted[i]
		a, err := w.find(x.A)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", x.Line, err)
		}
		b, err := w.find(x.B)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", x.Line, err)
		}
		meant[a], meant[b] = true, true
		if d := w.differs(x, a, b, usual); d != nil {
			out.Differences = append(out.Differences, *d)
		}
	}
	for i := range w.links {
		l := &w.links[i]
		a, b := place{node: l.A.GUID, port: l.A.Port}, place{node: l.B.GUID, port: l.B.Port}
		if w.inside(i) || meant[a] || meant[b] {
			continue
		}
		if moved := slices.IndexFunc(out.Differences, func(d Difference) bool { // it joins the same two nodes
			x, y := d.ends[0].node, d.ends[1].node
			return d.Kind == Missing && (x == a.node && y == b.node || x == b.node && y == a.node)
		}); moved >= 0 {
			d := &out.Differences[moved]
			d.Kind, d.Now, d.uses = Swapped, append(d.Now, w.text(i)), []int{i}
			continue
		}
		out.Differences = append(out.Differences, Difference{Kind: Extra, Cable: w.text(i), ends: [2]place{a, b}})
	}
	for i := range out.Differences {
		out.Counts[out.Differences[i].Kind]++
	}
	slices.SortStableFunc(out.Differences, func(a, b Difference) int { return cmp.Compare(order[a.Kind], order[b.Kind]) })
	out.number()
	slices.SortStableFunc(out.Differences, func(a, b Difference) int { return cmp.Compare(a.Fault, b.Fault) })
	return out, nil
}

// differs returns how the fabric differs from an intended cable between two places, or nil.
func (w *wiring) differs(x *Wanted, a, b place, usual bool) *Difference {
	la, hasA := w.at[a]
	lb, hasB := w.at[b]
	d := &Difference{Cable: x.String(), Line: x.Line, ends: [2]place{a, b}}
	if x.Rival > 0 {
		d.Now = []string{fmt.Sprintf("line %d of the file wants another cable in one of its ports", x.Rival)}
	}
	switch {
	case !hasA && !hasB:
		d.Kind = Missing
	case hasA && hasB && la == lb && a != b:
		least, now := x.Gbps, ib.ParseRate(w.links[la].Rate)
		if least == 0 && usual {
			least = w.usual(la)
		}
		if least == 0 || !now.Known() || now.Gbps() >= least*0.9 { // speeds are rounded
			return nil
		}
		d.Kind, d.Now = Degraded, append(d.Now, now.String())
	default:
		d.Kind = Swapped
		if hasA {
			d.Now, d.uses = append(d.Now, w.text(la)), append(d.uses, la)
		}
		if hasB && (!hasA || la != lb) {
			d.Now, d.uses = append(d.Now, w.text(lb)), append(d.uses, lb)
		}
	}
	return d
}

// usual returns the speed of at least three of four cables of a link's kind, in Gbit/s, or 0:
// cables between switches, or those of hosts.
func (w *wiring) usual(link int) float64 {
	kind := func(i int) bool { return w.links[i].A.Host != 0 || w.links[i].B.Host != 0 }
	if w.speeds == nil {
		w.speeds = map[bool]float64{}
		for _, of := range []bool{false, true} {
			counts, all := map[float64]int{}, 0
			for i := range w.links {
				if kind(i) == of {
					counts[ib.ParseRate(w.links[i].Rate).Gbps()]++
					all++
				}
			}
			for speed, n := range counts {
				if 4*n >= 3*all {
					w.speeds[of] = speed
				}
			}
		}
	}
	return w.speeds[kind(link)]
}

// number numbers the faults. Swapped cables that use a common link are one.
func (c *Comparison) number() {
	before := make([]int, len(c.Differences)) // an earlier difference of the same fault, or itself
	first := func(i int) int {
		for before[i] != i {
			i = before[i]
		}
		return i
	}
	user := map[int]int{} // [link] the first difference that uses it
	for i := range c.Differences {
		before[i] = i
		for _, link := range c.Differences[i].uses {
			if j, used := user[link]; used {
				a, b := first(i), first(j)
				before[max(a, b)] = min(a, b)
			} else {
				user[link] = i
			}
		}
	}
	for i := range c.Differences {
		if before[i] == i {
			c.Faults++
			c.Differences[i].Fault = c.Faults
		} else {
			c.Differences[i].Fault = c.Differences[before[i]].Fault
		}
	}
}

// OfBaseline returns the cables of a baseline. Cables of hosts are identified by the ports of
// their leaves.
func OfBaseline(b *topology.Baseline) (out []Wanted) {
	add := func(lower, upper End, u topology.Uplink, rate string) {
		if u.LeafPort == 0 {
			return // the baseline has no such cable
		}
		lower.Port, upper.Port = u.LeafPort, u.SpinePort
		out = append(out, Wanted{A: lower, B: upper, Gbps: ib.ParseRate(rate).Gbps()})
	}
	hosts := func(leaf End, slots []topology.Slot) {
		for _, s := range slots {
			if s.GUID != 0 {
				leaf.Port = s.LeafPort
				out = append(out, Wanted{A: leaf, B: End{Host: s.GUID, Name: s.Name}})
			}
		}
	}
	if p := b.Pods; p != nil {
		perPod := len(p.Mids) / max(1, p.Pods)
		for m := range p.Mids {
			n := 0
			for _, lane := range p.Lanes {
				if p.MidOf[lane.Plane] == m%perPod {
					top := &p.Tops[lane.Top]
					add(End{GUID: p.Mids[m].GUID, Name: p.Mids[m].Name}, End{GUID: top.GUID, Name: top.Name}, p.Mids[m].Uplinks[n], p.Rate)
					n++
				}
			}
		}
		for i := range p.Leaves {
			leaf := &p.Leaves[i]
			at := End{GUID: leaf.GUID, Name: leaf.Name}
			for plane, u := range leaf.Uplinks {
				mid := &p.Mids[leaf.Pod*perPod+p.MidOf[plane]]
				add(at, End{GUID: mid.GUID, Name: mid.Name}, u, p.Rate)
			}
			hosts(at, leaf.Slots)
		}
		return out
	}
	for i := range b.Leaves {
		leaf, lane := &b.Leaves[i], 0
		at := End{GUID: leaf.GUID, Name: leaf.Name}
		for s := range b.Spines {
			for range b.Spines[s].Cables {
				add(at, End{GUID: b.Spines[s].GUID, Name: b.Spines[s].Name}, leaf.Uplinks[lane], b.Rate)
				lane++
			}
		}
		hosts(at, leaf.Slots)
	}
	return out
}
