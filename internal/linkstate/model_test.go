package linkstate

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// cable is a cable between switches in its actual state.
type cable struct {
	ends  [2]end
	refs  [2]topology.PortRef // in the complete fabric
	state topology.PortState
	rate  ib.Rate
}

// rated is the rate that a switch has reported for one end.
type rated struct {
	rate ib.Rate
	told int // position in the history
}

// word is the state that a switch has reported for one end of a cable.
type word struct {
	asked time.Time
	state topology.PortState
	told  int // position in the history
}

// picture is a fabric shown by a sweep.
type picture struct {
	began time.Time // zero if the beginning was not announced
	told  int
	has   []bool       // [cable]
	rates [][2]ib.Rate // [cable], at its ends
	since []time.Time  // [cable] when pictures began to show both ends low; zero if not low here
}

// disputed reports whether the picture leaves the rate of a cable in doubt.
func (p *picture) disputed(c int) bool {
	return p.has[c] && p.rates[c][0] != p.rates[c][1] || p.low(c)
}

// low reports whether the picture shows both ends of a cable below those of another
// cable.
func (p *picture) low(c int) bool {
	return p.has[c] && p.rates[c] == [2]ib.Rate{narrow, narrow} && slices.ContainsFunc(p.all(), func(r [2]ib.Rate) bool { return r[0] == whole || r[1] == whole })
}

// all lists the rates of the cables in the picture.
func (p *picture) all() (rates [][2]ib.Rate) {
	for c, r := range p.rates {
		if p.has[c] {
			rates = append(rates, r)
		}
	}
	return rates
}

// sweep is a sweep of the manager that is under way.
type sweep struct {
	began time.Time
	seen  []topology.PortState // [cable], as it was when the sweep reached it
	been  []bool
}

// asked is a reading of a switch, with the state of its ports when the switch was asked.
type asked struct {
	at      time.Time
	trapped bool // a trap has arrived since
	own     bool
	ports   map[uint8]Port
}

// patience is the record of how a switch is read.
type patience struct {
	asked  time.Time
	silent bool        // in the last reading
	traps  []time.Time // received while the switch could be read
	heard  time.Time   // when the manager received a trap that it has not forwarded; zero if none
	all    int
}

// model is the environment of the link state: cables that die and come back, switches
// that send traps, which may be lost, and answer at arbitrary times, and a manager that
// sweeps. It keeps the complete history and derives from it the fabric that should be
// believed.
type model struct {
	t       *rapid.T
	links   *Links
	every   time.Duration
	now     time.Time
	whole   *topology.Fabric
	cables  []cable
	told    bool // the beginnings of sweeps are announced
	traps   []ib.GUID
	sweep   *sweep
	reads   map[ib.GUID]*asked
	words   map[end]word
	shown   []picture
	since   time.Time // when the first picture was shown
	history int
	believe *topology.Fabric
	rates   map[end]rated
	care    map[ib.GUID]*patience
	held    []ib.GUID
	manager topology.EndPort // the master's port
	leaf    ib.GUID          // where a switch has reported it

	rests    bool // sweeps no longer misread rates at both ends
	looking  bool
	wanted   bool      // a discovery follows the one under way
	dueSwept time.Time // when a discovery after a sweep is due
	looked   time.Time // when the last discovery ended
}

func newModel(t *rapid.T) *model {
	spec := fabgen.Spec{Spines: rapid.IntRange(1, 3).Draw(t, "spines"), Leaves: rapid.IntRange(1, 3).Draw(t, "leaves"), Cables: rapid.IntRange(1, 2).Draw(t, "cables"), Hosts: []int{1}}
	m := &model{t: t, now: start, whole: fabgen.Generate(spec), reads: map[ib.GUID]*asked{}, words: map[end]word{}, rates: map[end]rated{}, care: map[ib.GUID]*patience{},
		every: rapid.SampledFrom([]time.Duration{0, 30 * time.Second}).Draw(t, "discover")}
	for i := range m.whole.Nodes {
		m.care[m.whole.Nodes[i].GUID] = &patience{}
		for _, p := range m.whole.Trunks(int32(i)) {
			a := topology.PortRef{Node: int32(i), Port: p}
			far := m.whole.At(a)
			b := topology.PortRef{Node: far.Peer, Port: far.PeerPort}
			if m.whole.Nodes[i].Kind == topology.Switch && a.Node < b.Node {
				m.cables = append(m.cables, cable{[2]end{m.end(a), m.end(b)}, [2]topology.PortRef{a, b}, topology.Active, whole})
			}
		}
	}
	m.hand()
	m.links = New(Settings{Reads: true, DiscoverEvery: m.every})
	return m
}

// The rates that cables may train to.
var whole, narrow = ib.Rate{Width: 4, Speed: ib.HDR}, ib.Rate{Width: 1, Speed: ib.HDR}

// hand makes the manager of another host the master.
func (m *model) hand() {
	for {
		m.manager = rapid.SampledFrom(m.whole.EndPorts()).Draw(m.t, "manager")
		if m.whole.Nodes[m.manager.Node].Kind == topology.Adapter {
			return
		}
	}
}

func (m *model) end(r topology.PortRef) end { return end{m.whole.Nodes[r.Node].GUID, r.Port} }

// step passes an event to the link state and checks the actions.
func (m *model) step(e Event) {
	m.history++
	believe := false
	for _, a := range m.links.Step(m.now, e) {
		switch a := a.(type) {
		case Believe:
			believe, m.believe = true, a.Fabric
			if a.Seen.IsZero() || a.Seen.After(m.now) {
				m.t.Fatalf("believes what was seen at %v, and it is %v", a.Seen, m.now)
			}
		case Read:
			m.read(a)
		case Discover:
			m.discover(a)
		}
	}
	if _, shows := e.(Shown); shows && !believe {
		m.t.Fatal("a sweep is not answered")
	}
	m.check()
	if w := m.links.Wake(); !w.IsZero() && !w.After(m.now) {
		m.t.Fatalf("wants a tick at %v, and it is %v", w, m.now)
	}
}

// read starts the reading of a switch.
func (m *model) read(a Read) {
	if m.reads[a.Switch] != nil {
		m.t.Fatalf("%v, which is being read", a)
	}
	if len(m.shown) == 0 {
		m.t.Fatalf("%v, and no fabric was shown", a)
	}
	r := &asked{at: m.now, ports: map[uint8]Port{}}
	if r.own = len(a.Ports) > 0 && a.Ports[0] == 0; r.own {
		a.Ports = a.Ports[1:]
	}
	var want []uint8
	for c := range m.cables {
		for _, e := range m.cables[c].ends {
			if e.node == a.Switch && m.last().has[c] {
				want = append(want, e.port)
				r.ports[e.port] = m.port(c, e)
			}
		}
	}
	slices.Sort(want)
	if !slices.Equal(a.Ports, want) || len(want) == 0 || a.LID != m.whole.Nodes[m.whole.Find(a.Switch)].LID() {
		m.t.Fatalf("%v by LID %d, want ports %v", a, a.LID, want)
	}
	care := m.care[a.Switch]
	if r.own && !care.heard.IsZero() && m.now.Sub(care.heard) >= Unheeded { // the manager ignores it
		care.heard, care.traps, care.all = time.Time{}, append(care.traps, slices.Repeat([]time.Time{m.now}, ManyTraps)...), care.all+ManyTraps
	} else if pause := m.now.Sub(care.asked); r.own && (pause < Often || pause < Seldom && (care.silent || care.all < ManyTraps && !slices.Contains(m.held, a.Switch))) {
		m.t.Fatalf("%v is read after %v, without need", a.Switch, pause)
	}
	care.asked = m.now
	m.reads[a.Switch] = r
}

// port returns the actual state of an end.
func (m *model) port(c int, e end) Port {
	return Port{Number: e.port, State: m.cables[c].state, Rate: m.cables[c].rate}
}

func (m *model) last() *picture { return &m.shown[len(m.shown)-1] }

// answer lets switches answer with the states of their ports at the time of the question
// or now, or not at all.
func (m *model) answer(switches []ib.GUID, silent bool) {
	var e PortsRead
	again := map[ib.GUID]bool{}
	for _, g := range switches {
		r := m.reads[g]
		delete(m.reads, g)
		again[g] = r.trapped
		m.care[g].silent = silent
		a := Answer{Switch: g}
		if r.own && !silent {
			a.Manager = m.manager.LID
			at := m.whole.At(m.manager.PortRef)
			m.leaf = m.whole.Nodes[at.Peer].GUID
		}
		for c := range m.cables {
			for i, x := range m.cables[c].ends {
				said, was := r.ports[x.port]
				if silent || x.node != g || !was {
					continue
				}
				if rapid.Bool().Draw(m.t, "late") {
					said = m.port(c, x)
				}
				a.Ports = append(a.Ports, said)
				if said.State != topology.Init { // trained but not brought up: this says nothing about the loss
					m.words[x] = word{r.at, said.State, m.history + 1}
				}
				if other := m.cables[c].ends[1-i]; said.State == topology.Active && m.last().has[c] && m.care[other.node].silent && m.words[other].asked.Before(r.at) {
					delete(m.words, other) // it can say nothing new
				}
				m.rates[x] = rated{said.Rate, m.history + 1}
			}
		}
		e.Answers = append(e.Answers, a)
	}
	m.step(e)
	for g, want := range again {
		if want && m.readable(g) && m.reads[g] == nil {
			m.t.Fatalf("a trap of %v came while it was being read, and it is not read again", g)
		}
	}
}

// readable reports whether the last sweep shows a cable from this switch to another one.
func (m *model) readable(g ib.GUID) bool {
	for c := range m.cables {
		if len(m.shown) > 0 && m.last().has[c] && (m.cables[c].ends[0].node == g || m.cables[c].ends[1].node == g) {
			return true
		}
	}
	return false
}

// trap delivers a trap.
func (m *model) trap(g ib.GUID) {
	before := m.reads[g]
	m.wants()
	care := m.care[g]
	if care.all++; m.readable(g) {
		care.traps = append(care.traps, m.now)
	}
	if len(m.shown) > 0 && m.links.Shown().Find(g) != topology.None {
		care.heard = time.Time{}
	}
	m.step(Trap{m.whole.Nodes[m.whole.Find(g)].LID(), m.now})
	switch {
	case !m.readable(g):
	case before != nil:
		before.trapped = true
	case m.reads[g] == nil:
		m.t.Fatalf("a trap of %v, and it is not read", g)
	}
}

// trapLogged reports a trap from the manager's log.
func (m *model) trapLogged(g ib.GUID, told bool) {
	at := m.whole.Find(g)
	if care := m.care[g]; len(m.shown) > 0 && m.links.Shown().Find(g) != topology.None && m.whole.Nodes[at].Kind == topology.Switch {
		if told {
			care.heard = time.Time{}
		} else if care.heard.IsZero() {
			care.heard = m.now
		}
	}
	m.step(TrapLogged{m.whole.Nodes[at].LID(), told})
}

// visit lets the sweep under way reach a cable.
func (s *sweep) visit(c int, state topology.PortState) {
	if !s.been[c] {
		s.been[c], s.seen[c] = true, state
	}
}

// show shows the result of a sweep. A sweep that is over has brought up the links that it
// found trained.
func (m *model) show(swept bool) {
	p := picture{told: m.history + 1, has: make([]bool, len(m.cables)), rates: make([][2]ib.Rate, len(m.cables)), since: make([]time.Time, len(m.cables))}
	if m.told {
		p.began = m.sweep.began
	}
	var lacks []topology.PortRef
	for c := range m.cables {
		m.sweep.visit(c, m.cables[c].state)
		if p.has[c] = m.sweep.seen[c] != topology.Down; !p.has[c] {
			lacks = append(lacks, m.cables[c].refs[0])
		} else if swept && m.cables[c].state == topology.Init {
			m.cables[c].state = topology.Active
		}
	}
	f := m.whole.Clone()
	misread := rapid.IntRange(0, 3*len(m.cables)).Draw(m.t, "misread")
	both := !m.rests && rapid.Bool().Draw(m.t, "both")
	for c := range m.cables {
		for i, r := range m.cables[c].refs {
			p.rates[c][i] = m.cables[c].rate
			if misread == c && (i == 0 || both) {
				p.rates[c][i] = ib.Rate{Width: 5 - p.rates[c][i].Width, Speed: ib.HDR}
			}
			f.At(r).Rate = p.rates[c][i]
		}
	}
	for c := range m.cables {
		if p.low(c) {
			if p.since[c] = m.now; len(m.shown) > 0 && m.last().low(c) {
				p.since[c] = m.last().since[c]
			}
		}
	}
	if m.shown = append(m.shown, p); len(m.shown) == 1 {
		m.since = m.now
	}
	e := Shown{Fabric: f.Without(lacks...), Swept: swept}
	if !m.told {
		e.Seen = m.now
	}
	m.step(e)
	if swept {
		m.sweep = nil
	}
	for c := range m.cables {
		for _, x := range m.cables[c].ends {
			if !m.told && m.lost(c, x) && m.reads[x.node] == nil {
				m.t.Fatalf("a dump contradicts switch %v, which is not asked", x.node)
			}
			if p.disputed(c) && (!p.low(c) || m.now.Sub(p.since[c]) < Training || m.rate(c, 0) != narrow || m.rate(c, 1) != narrow) && m.reads[x.node] == nil {
				m.t.Fatalf("switch %v is not asked for the rate of a cable that is in doubt", x.node)
			}
		}
	}
}

// wants records that a discovery is wanted.
func (m *model) wants() { m.wanted = m.wanted || m.looking }

// discover starts a discovery.
func (m *model) discover(a Discover) {
	if m.looking || m.every == 0 {
		m.t.Fatalf("%v, while one is under way (%v) or is not wanted", a, m.looking)
	}
	m.looking = true
	if a.Swept && !m.dueSwept.IsZero() && !m.now.Before(m.dueSwept) {
		m.dueSwept = time.Time{}
	}
}

// look ends the discovery under way.
func (m *model) look() {
	wanted := m.wanted
	m.looking, m.wanted, m.looked = false, false, m.now
	m.step(Looked{})
	if wanted && !m.looking {
		m.t.Fatal("a discovery was asked for during another one, and does not follow")
	}
}

// pass advances the time, with a tick whenever the link state asks for one.
func (m *model) pass(d time.Duration) {
	for to := m.now.Add(d); m.now.Before(to); {
		m.now = to
		if w := m.links.Wake(); !w.IsZero() && w.Before(to) {
			m.now = w
		}
		m.step(Tick{})
	}
	m.cared()
	switch {
	case m.every == 0 || m.looking:
	case m.now.Sub(m.looked) > m.every:
		m.t.Fatalf("no discovery for %v", m.now.Sub(m.looked))
	case !m.dueSwept.IsZero() && m.now.After(m.dueSwept):
		m.t.Fatalf("no discovery after a sweep, which was due at %v", m.dueSwept)
	}
}

// change lets a cable die or come back. The switches at both ends send a trap if they
// can.
func (m *model) change(c int) {
	x := &m.cables[c]
	if x.state == topology.Down {
		x.state = topology.Init
	} else {
		x.state = topology.Down
	}
	m.traps = append(m.traps, x.ends[0].node, x.ends[1].node)
}

// reading lists the switches that are being read.
func (m *model) reading() (all []ib.GUID) {
	for i := range m.whole.Nodes {
		if g := m.whole.Nodes[i].GUID; m.reads[g] != nil {
			all = append(all, g)
		}
	}
	return all
}

// begin starts a sweep.
func (m *model) begin() {
	m.sweep = &sweep{began: m.now, seen: make([]topology.PortState, len(m.cables)), been: make([]bool, len(m.cables))}
	if m.told {
		m.step(SweepBegan{m.now})
	}
}
