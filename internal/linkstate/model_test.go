package linkstate

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// cable is one between switches, as it is.
type cable struct {
	ends  [2]end
	refs  [2]topology.PortRef // in the whole fabric
	state topology.PortState
	rate  topology.Rate
}

// rated is what a switch has said of the rate of one end.
type rated struct {
	rate topology.Rate
	told int // its place in history
}

// word is what a switch has said of one end of a cable.
type word struct {
	asked time.Time
	state topology.PortState
	told  int // its place in history
}

// picture is a fabric that a sweep has shown.
type picture struct {
	began time.Time // zero where nobody told
	told  int
	has   []bool             // [cable]
	rates [][2]topology.Rate // [cable] at its ends
	since []time.Time        // [cable] when pictures began to have both ends low; zero where this one has not
}

// disputed tells whether the picture leaves the rate of a cable in doubt.
func (p *picture) disputed(c int) bool {
	return p.has[c] && p.rates[c][0] != p.rates[c][1] || p.low(c)
}

// low tells whether the picture has both ends of a cable below those of another one.
func (p *picture) low(c int) bool {
	return p.has[c] && p.rates[c] == [2]topology.Rate{narrow, narrow} && slices.ContainsFunc(p.all(), func(r [2]topology.Rate) bool { return r[0] == whole || r[1] == whole })
}

// all lists the rates of the cables that the picture has.
func (p *picture) all() (rates [][2]topology.Rate) {
	for c, r := range p.rates {
		if p.has[c] {
			rates = append(rates, r)
		}
	}
	return rates
}

// sweep is one of the manager's that is under way.
type sweep struct {
	began time.Time
	seen  []topology.PortState // [cable], as it was when the sweep came by
	been  []bool
}

// asked is a switch that is being read, and what its ports were when it was asked.
type asked struct {
	at      time.Time
	trapped bool // a trap has come since
	own     bool
	ports   map[uint8]Port
}

// patience is what is known of how a switch is read.
type patience struct {
	asked  time.Time
	silent bool        // the last time
	traps  []time.Time // while it could be read
	heard  time.Time   // when the manager received a trap that it has told nobody of; zero for none
	all    int
}

// model is everything around the link state: cables that die and come back, switches
// that send traps, which may be lost, and answer when they like, and a manager that
// sweeps. It keeps the whole history, from which it says what is to be believed.
type model struct {
	t       *rapid.T
	links   *Links
	every   time.Duration
	now     time.Time
	whole   *topology.Fabric
	cables  []cable
	told    bool // somebody tells when sweeps begin
	traps   []topology.GUID
	sweep   *sweep
	reads   map[topology.GUID]*asked
	words   map[end]word
	shown   []picture
	since   time.Time // when the first was shown
	history int
	believe *topology.Fabric
	rates   map[end]rated
	care    map[topology.GUID]*patience
	held    []topology.GUID
	manager topology.EndPort // the master's
	leaf    topology.GUID    // where a switch has told that it is

	rests    bool // sweeps read no rate wrong at both ends any more
	looking  bool
	wanted   bool      // a discovery is to follow the one under way
	dueSwept time.Time // when one after a sweep is due
	looked   time.Time // when the last one was over
}

func newModel(t *rapid.T) *model {
	spec := fabgen.Spec{Spines: rapid.IntRange(1, 3).Draw(t, "spines"), Leaves: rapid.IntRange(1, 3).Draw(t, "leaves"), Cables: rapid.IntRange(1, 2).Draw(t, "cables"), Hosts: []int{1}}
	m := &model{t: t, now: start, whole: fabgen.Generate(spec), reads: map[topology.GUID]*asked{}, words: map[end]word{}, rates: map[end]rated{}, care: map[topology.GUID]*patience{},
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

// The rates of cables, by what they have trained to.
var whole, narrow = topology.Rate{Width: 4, Speed: topology.HDR}, topology.Rate{Width: 1, Speed: topology.HDR}

// hand makes another host's manager the master.
func (m *model) hand() {
	for {
		m.manager = rapid.SampledFrom(m.whole.EndPorts()).Draw(m.t, "manager")
		if m.whole.Nodes[m.manager.Node].Kind == topology.Adapter {
			return
		}
	}
}

func (m *model) end(r topology.PortRef) end { return end{m.whole.Nodes[r.Node].GUID, r.Port} }

// step tells the link state of an event, and checks what it says.
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

// read has a switch asked.
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

// port is an end as it is.
func (m *model) port(c int, e end) Port {
	return Port{Number: e.port, State: m.cables[c].state, Rate: m.cables[c].rate}
}

func (m *model) last() *picture { return &m.shown[len(m.shown)-1] }

// answer has a switch answer with the states of its ports when it was asked or now, or
// not at all.
func (m *model) answer(switches []topology.GUID, silent bool) {
	var e Said
	again := map[topology.GUID]bool{}
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
			for _, x := range m.cables[c].ends {
				said, was := r.ports[x.port]
				if silent || x.node != g || !was {
					continue
				}
				if rapid.Bool().Draw(m.t, "late") {
					said = m.port(c, x)
				}
				a.Ports = append(a.Ports, said)
				if said.State != topology.Init { // trained, and yet to be brought up: no word either way
					m.words[x] = word{r.at, said.State, m.history + 1}
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

// readable tells whether the last sweep shows a switch with a cable to another one.
func (m *model) readable(g topology.GUID) bool {
	for c := range m.cables {
		if len(m.shown) > 0 && m.last().has[c] && (m.cables[c].ends[0].node == g || m.cables[c].ends[1].node == g) {
			return true
		}
	}
	return false
}

// trap delivers one.
func (m *model) trap(g topology.GUID) {
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

// overheard has the manager's log tell of a trap.
func (m *model) overheard(g topology.GUID, told bool) {
	at := m.whole.Find(g)
	if care := m.care[g]; len(m.shown) > 0 && m.links.Shown().Find(g) != topology.None && m.whole.Nodes[at].Kind == topology.Switch {
		if told {
			care.heard = time.Time{}
		} else if care.heard.IsZero() {
			care.heard = m.now
		}
	}
	m.step(Overheard{m.whole.Nodes[at].LID(), told})
}

// visit has the sweep under way come by a cable.
func (s *sweep) visit(c int, state topology.PortState) {
	if !s.been[c] {
		s.been[c], s.seen[c] = true, state
	}
}

// show shows what a sweep has found. One that is over has brought up what it found
// trained.
func (m *model) show(swept bool) {
	p := picture{told: m.history + 1, has: make([]bool, len(m.cables)), rates: make([][2]topology.Rate, len(m.cables)), since: make([]time.Time, len(m.cables))}
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
				p.rates[c][i] = topology.Rate{Width: 5 - p.rates[c][i].Width, Speed: topology.HDR}
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

// wants notes that a discovery is wanted.
func (m *model) wants() { m.wanted = m.wanted || m.looking }

// discover begins a discovery.
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

// pass lets time pass, with a tick whenever the link state wants one.
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

// change has a cable die or come back. Both its switches send a trap, as far as they
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
func (m *model) reading() (all []topology.GUID) {
	for i := range m.whole.Nodes {
		if g := m.whole.Nodes[i].GUID; m.reads[g] != nil {
			all = append(all, g)
		}
	}
	return all
}

// begin begins a sweep.
func (m *model) begin() {
	m.sweep = &sweep{began: m.now, seen: make([]topology.PortState, len(m.cables)), been: make([]bool, len(m.cables))}
	if m.told {
		m.step(SweepBegan{m.now})
	}
}
