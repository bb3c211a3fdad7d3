package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/testbed/histories"
)

// The lanes of the model. Its fabric number i lacks the lanes whose bits are set in i; from
// ring on, fabrics are not trees.
var modelLanes = []Lane{{0, 0}, {0, 1}, {1, 0}}

const ring = 8

func modelFabric(i int) Snapshot {
	s := Snapshot{ID: fmt.Sprint(i)}
	if i >= ring {
		s.Kind, s.Why = OwnRoutes, "it is a ring"
		return s
	}
	for b, l := range modelLanes {
		if i>>b&1 == 1 {
			s.Down = append(s.Down, l)
		}
	}
	return s
}

// tablesOf identifies tables: the fabric that they are for, and the lanes that they do not
// carry. Tables made by the manager have unique numbers.
type tablesOf struct {
	fabric string
	closed []Lane
	own    bool // made by the manager
	number int
}

func (a tablesOf) equal(b tablesOf) bool {
	return a.fabric == b.fabric && slices.Equal(a.closed, b.closed) && a.number == b.number
}

// model simulates the controller's environment: the manager and its switches, which may load
// the table file at any time, the plan in force, and the operator. It checks each action when
// it is requested.
type model struct {
	t          *rapid.T
	c          *Controller
	now        time.Time
	file       tablesOf
	switches   tablesOf
	read       *tablesOf // last tables read back
	outdated   bool      // mastership has changed since the current action was requested
	matched    bool      // they were the planned tables, and the controller has led since
	planFailed bool      // the last plan was refused
	used       []Lane    // by the plan in force
	candidate  []Lane    // used by the last plan
	due        Action    // the current action
	settled    string    // the last Settled
	fabric     int       // the current fabric
	swept      int       // number of sweeps that have routed a fabric that is not a tree
	on         tablesOf  // tables of the last plan, if the fabric is not a tree
	inForce    tablesOf  // tables of the plan in force, likewise
	standby    bool
	withheld   []Lane // by decision
}

func (m *model) step(e Event) {
	for _, a := range m.c.Step(m.now, e) {
		switch a := a.(type) {
		case Warn, Clear:
		case Settled:
			m.settled = a.Fabric.ID
		default:
			if m.due != nil {
				m.t.Fatalf("asked for %q while %q has no answer", a, m.due)
			}
			m.due = a
			m.check(a)
		}
	}
	if m.c.Busy() != (m.due != nil) {
		m.t.Fatalf("state %s, action under way: %v", m.c.State(), m.due)
	}
}

// check checks make-before-break for an action.
func (m *model) check(a Action) {
	if p, plan := a.(Plan); m.standby && !plan || plan && p.Ahead != m.standby {
		m.t.Fatalf("%s while standby is %v", a, m.standby)
	}
	switch a := a.(type) {
	case Signal:
		if m.c.work.Kind == OwnRoutes {
			m.t.Fatalf("%s while fabric %s has routes of its own", a, m.c.work.ID)
		}
	case Publish:
		if a.Fabric.Kind == OwnRoutes {
			if !m.on.equal(m.switches) {
				m.t.Fatalf("%s is for tables %v, and the switches hold %v", a, m.on, m.switches)
			}
			return
		}
		for _, l := range m.candidate {
			if slices.Contains(m.switches.closed, l) {
				m.t.Fatalf("%s uses lane %s, which the switches do not carry", a, l)
			}
			if slices.Contains(m.file.closed, l) {
				m.t.Fatalf("%s uses lane %s, which the table file does not carry: the manager may load it now", a, l)
			}
		}
	case Write:
		if a.Fabric.Kind == OwnRoutes {
			m.t.Fatalf("%s: its routes are the manager's", a)
		}
		if !m.matched || m.planFailed || m.used == nil {
			return
		}
		for _, l := range m.tables(a.Fabric.ID, a.Hold).closed {
			if slices.Contains(m.used, l) && !slices.Contains(m.switches.closed, l) {
				m.t.Fatalf("%s closes lane %s, which the plan in force uses", a, l)
			}
		}
	}
}

// tables returns the tables of a fabric with lanes held back.
func (m *model) tables(fabric string, hold []Lane) tablesOf {
	var i int
	_, _ = fmt.Sscan(fabric, &i)
	return tablesOf{fabric: fabric, closed: union(modelFabric(i).Down, hold)}
}

// answer carries out the current action, with success or failure.
func (m *model) answer(bad bool) {
	a, outdated := m.due, m.outdated
	m.due, m.outdated = nil, false
	failed := ""
	if bad {
		failed = "it failed"
	}
	switch a := a.(type) {
	case Plan:
		if a.Fabric.Kind == OwnRoutes {
			m.candidate, m.on = nil, tablesOf{}
			if m.read != nil { // otherwise mastership has changed, and nothing follows
				m.on = *m.read
			}
			m.step(Planned{Same: !bad && !a.Anew && m.on.equal(m.inForce), Err: failed})
			return
		}
		m.on = tablesOf{}
		m.candidate = minus(minus(modelLanes, m.tables(a.Fabric.ID, nil).closed), a.Avoid)
		for _, l := range m.candidate {
			if !a.Ahead && m.read != nil && slices.Contains(m.read.closed, l) {
				failed = "it does not hold on the tables read back"
			}
		}
		m.planFailed = failed != ""
		m.step(Planned{Same: !m.planFailed && slices.Equal(m.candidate, m.used), Err: failed})
	case Publish:
		if !bad {
			m.used, m.inForce = m.candidate, m.on
		}
		m.step(Published{failed})
	case Write:
		next := m.tables(a.Fabric.ID, a.Hold)
		changed := !next.equal(m.file)
		if !bad || m.now.Unix()%2 == 0 { // the failure is before or after the rename
			m.file = next
		}
		m.step(Written{Changed: changed, Err: failed})
	case Signal:
		m.step(Signalled{failed})
	case ReadBack:
		if bad {
			m.step(ReadBackDone{Err: failed})
			return
		}
		read := m.switches
		m.read = &read
		if a.Fabric.Kind == OwnRoutes {
			m.matched = false
			m.step(ReadBackDone{Match: true})
			return
		}
		unwritten := ""
		if want := m.tables(a.Fabric.ID, a.Hold); !want.equal(m.file) {
			unwritten = "the file holds others"
		}
		match := m.tables(a.Fabric.ID, a.Hold).equal(m.switches)
		m.matched = m.matched || match && !outdated
		m.step(ReadBackDone{Match: match, Unwritten: unwritten})
	default:
		m.t.Fatal("nothing is under way")
	}
}

// hand moves mastership to another manager, which leaves the tables unchanged, or back. Actions
// requested before are still answered.
func (m *model) hand(standby bool) {
	m.standby, m.read, m.matched, m.outdated = standby, nil, false, m.due != nil
	m.step(Mastership{Master: !standby})
}

// find is the manager's discovery during a sweep. From then on the manager may route a fabric
// that is not a tree.
func (m *model) find() {
	m.matched = m.matched && m.fabric < ring
	m.step(Found{m.snapshot()})
}

// snapshot returns the current fabric with its withheld lanes.
func (m *model) snapshot() Snapshot {
	s := modelFabric(m.fabric)
	s.Withheld = m.withheld
	return s
}

// sweep is the manager's sweep. It loads the file, or makes routes for a fabric that is not a
// tree, and dumps the fabric.
func (m *model) sweep(lost float64) {
	m.load()
	s := m.snapshot()
	if lost > 0 {
		s.ID, s.Lost = s.ID+" with hosts missing", lost
	}
	m.step(Seen{s})
}

// load is the effect of a sweep on tables, before the sweep is reported.
func (m *model) load() {
	if m.switches = m.file; m.fabric >= ring {
		m.swept++
		m.matched = false
		m.switches = tablesOf{fabric: fmt.Sprint(m.fabric), own: true, number: m.swept / 3} // some sweeps leave them unchanged
	}
}

func (m *model) pass(d time.Duration) {
	m.now = m.now.Add(d)
	m.step(Tick{})
	if w := m.c.Wake(); !w.IsZero() && !w.After(m.now) {
		m.t.Fatalf("state %s: wants a tick at once after a tick", m.c.State())
	}
}

// TestMakeBeforeBreak drives the controller with random events and a manager that loads the
// table file at any time. It checks that no plan is published that uses a lane which the
// switches, or the table file, do not carry; that no tables are written that close a lane of
// the plan in force, unless no plan could be made without it; that two actions are never in
// progress; and that the controller settles on the current fabric once everything succeeds.
func TestMakeBeforeBreak(t *testing.T) {
	histories.Check(t, 2000, func(t *rapid.T) {
		m := &model{t: t, c: New(testSettings), now: time.Unix(0, 0), file: tablesOf{closed: modelLanes}, switches: tablesOf{closed: modelLanes}}
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) { m.fabric = rapid.IntRange(0, ring+1).Draw(t, "fabric") },
			"sweep":  func(_ *rapid.T) { m.sweep(0) },
			"find":   func(_ *rapid.T) { m.find() },
			"hand":   func(_ *rapid.T) { m.hand(!m.standby) },
			"load": func(t *rapid.T) {
				if m.fabric >= ring || m.switches.own {
					t.Skip("of sweeps that replace its own tables the manager tells at once")
				}
				m.load()
			},
			"lose":   func(t *rapid.T) { m.sweep(rapid.SampledFrom([]float64{0.3, 0.9}).Draw(t, "lost")) },
			"refuse": func(_ *rapid.T) { m.step(Refused{"no fat tree"}) },
			"pass": func(t *rapid.T) {
				m.pass(time.Duration(rapid.SampledFrom([]int{0, 1, 3, 10, 60, 300}).Draw(t, "seconds")) * time.Second)
			},
			"reroute": func(_ *rapid.T) { m.step(Reroute{}) },
			"withhold": func(t *rapid.T) {
				m.withheld = union(rapid.SliceOfDistinct(rapid.SampledFrom(modelLanes), func(l Lane) Lane { return l }).Draw(t, "lanes"), nil)
				if m.c.latest != nil {
					again := *m.c.latest
					again.Withheld = m.withheld
					m.step(Found{again})
				}
			},
			"restart": func(_ *rapid.T) { m.step(TablesDoubted{}) },
			"configure": func(t *rapid.T) {
				set := testSettings
				set.MaxLoss, set.Flaps = rapid.SampledFrom([]float64{0.1, 0.5, 1}).Draw(t, "most"), rapid.IntRange(1, 5).Draw(t, "flaps")
				set.HoldDown, set.Confirm = time.Duration(rapid.IntRange(1, 60).Draw(t, "hold"))*time.Second, time.Duration(rapid.IntRange(1, 60).Draw(t, "confirm"))*time.Second
				m.step(Configured{set})
			},
			"answer": func(t *rapid.T) {
				if m.due == nil {
					t.Skip("nothing is under way")
				}
				m.answer(rapid.IntRange(0, 3).Draw(t, "luck") == 0)
			},
		})
		m.comeToRest()
	})
}

// comeToRest makes everything succeed, and checks that the controller settles on the current
// fabric, with every lane in use that is up and not withheld.
func (m *model) comeToRest() {
	m.settled = ""
	if m.standby {
		m.hand(false)
	}
	m.sweep(0)
	for range 200 {
		switch {
		case m.due != nil:
			if _, signal := m.due.(Signal); signal {
				m.answer(false)
				m.sweep(0)
			} else {
				m.answer(false)
			}
		case m.c.State() == Idle && m.c.Wake().IsZero() && m.settled == modelFabric(m.fabric).ID:
			want := minus(minus(modelLanes, modelFabric(m.fabric).Down), m.withheld)
			if m.fabric >= ring {
				if want = nil; !m.inForce.equal(m.switches) {
					m.t.Fatalf("settled with a plan for tables %v, and the switches hold %v", m.inForce, m.switches)
				}
			}
			if !slices.Equal(m.used, want) {
				m.t.Fatalf("settled on fabric %s with a plan on %v, want %v", m.settled, m.used, want)
			}
			delete(m.c.out.raised, NotFatTree)
			if len(m.c.out.raised) > 0 {
				m.t.Fatalf("settled, and warnings remain: %v", m.c.out.raised)
			}
			return
		default:
			m.pass(10 * time.Minute)
			if m.due == nil {
				m.sweep(0)
			}
		}
	}
	m.t.Fatalf("does not settle: state %s, settled on %q", m.c.State(), m.settled)
}

// TestActionsCarryLatestView shows a fabric again during work on it, with other names, and
// checks that the next actions have the latest view.
func TestActionsCarryLatestView(t *testing.T) {
	c := New(Settings{MaxLoss: 0.5})
	c.Step(time.Unix(0, 0), Seen{Snapshot{ID: "A", View: "first"}})
	c.Step(time.Unix(1, 0), Seen{Snapshot{ID: "A", View: "second"}})
	actions := c.Step(time.Unix(2, 0), Written{})
	if len(actions) != 1 {
		t.Fatalf("actions %v", actions)
	}
	if read, is := actions[0].(ReadBack); !is || read.Fabric.View != "second" {
		t.Errorf("%s, for %+v", actions[0], read.Fabric)
	}
}
