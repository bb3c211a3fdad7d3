package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The lanes of the model, and the fabrics that it shows: fabric i lacks the
// lanes whose bits are set in i.
var modelLanes = []Lane{{0, 0}, {0, 1}, {1, 0}}

func modelFabric(i int) Snapshot {
	s := Snapshot{ID: fmt.Sprint(i)}
	for b, l := range modelLanes {
		if i>>b&1 == 1 {
			s.Down = append(s.Down, l)
		}
	}
	return s
}

// tablesOf are tables: the fabric that they are for, and the lanes that they do
// not carry.
type tablesOf struct {
	fabric string
	closed []Lane
}

func (a tablesOf) equal(b tablesOf) bool {
	return a.fabric == b.fabric && slices.Equal(a.closed, b.closed)
}

// model is everything around the controller: the manager and its switches, which
// may load the table file whenever they like, the plan in force, and the
// operator. It checks each action when it is asked for.
type model struct {
	t          *rapid.T
	c          *Controller
	now        time.Time
	file       tablesOf
	switches   tablesOf
	read       *tablesOf // as read back last
	planFailed bool      // the last plan was refused
	used       []Lane    // by the plan in force
	candidate  []Lane    // used by the last plan
	due        Action    // the action under way
	settled    string    // the last Settled
	fabric     int       // as it is
	standby    bool
}

func (m *model) step(e Event) {
	for _, a := range m.c.Step(m.now, e) {
		switch a := a.(type) {
		case Warn, Clear:
		case Settled:
			m.settled = a.Fabric
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

// check holds make-before-break against an action.
func (m *model) check(a Action) {
	if p, plan := a.(Plan); m.standby && !plan || plan && p.Ahead != m.standby {
		m.t.Fatalf("%s while standby is %v", a, m.standby)
	}
	switch a := a.(type) {
	case Publish:
		for _, l := range m.candidate {
			if slices.Contains(m.switches.closed, l) {
				m.t.Fatalf("%s uses lane %s, which the switches do not carry", a, l)
			}
			if slices.Contains(m.file.closed, l) {
				m.t.Fatalf("%s uses lane %s, which the table file does not carry: the manager may load it now", a, l)
			}
		}
	case Write:
		if m.read == nil || m.planFailed {
			return
		}
		for _, l := range m.tables(a.Fabric, a.Hold).closed {
			if slices.Contains(m.used, l) && !slices.Contains(m.switches.closed, l) {
				m.t.Fatalf("%s closes lane %s, which the plan in force uses", a, l)
			}
		}
	}
}

// tables are those of a fabric with lanes held back.
func (m *model) tables(fabric string, hold []Lane) tablesOf {
	var i int
	fmt.Sscan(fabric, &i)
	return tablesOf{fabric, union(modelFabric(i).Down, hold)}
}

// answer carries the action under way out, well or badly.
func (m *model) answer(bad bool) {
	a := m.due
	m.due = nil
	failed := ""
	if bad {
		failed = "it failed"
	}
	switch a := a.(type) {
	case Plan:
		m.candidate = minus(minus(modelLanes, m.tables(a.Fabric, nil).closed), a.Avoid)
		for _, l := range m.candidate {
			if !a.Ahead && m.read != nil && slices.Contains(m.read.closed, l) {
				failed = "it does not hold on the tables read back"
			}
		}
		m.planFailed = failed != ""
		m.step(Planned{Same: !m.planFailed && slices.Equal(m.candidate, m.used), Err: failed})
	case Publish:
		if !bad {
			m.used = m.candidate
		}
		m.step(Published{failed})
	case Write:
		next := m.tables(a.Fabric, a.Hold)
		changed := !next.equal(m.file)
		if !bad || m.now.Unix()%2 == 0 { // a failure before or after the rename
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
		unwritten := ""
		if want := m.tables(a.Fabric, a.Hold); !want.equal(m.file) {
			unwritten = "the file holds others"
		}
		m.step(ReadBackDone{Match: m.tables(a.Fabric, a.Hold).equal(m.switches), Unwritten: unwritten})
	default:
		m.t.Fatal("nothing is under way")
	}
}

// hand gives mastership to another manager, which leaves the tables alone, or takes
// it back. What was asked for before is answered all the same.
func (m *model) hand(standby bool) {
	m.standby, m.read = standby, nil
	m.step(Mastership{Master: !standby})
}

// find is the manager's discovery in the middle of a sweep.
func (m *model) find() { m.step(Found{modelFabric(m.fabric)}) }

// sweep is the manager's: it loads the file and dumps the fabric.
func (m *model) sweep(lost float64) {
	m.switches = m.file
	s := modelFabric(m.fabric)
	if lost > 0 {
		s.ID, s.Lost = s.ID+" with hosts missing", lost
	}
	m.step(Seen{s})
}

func (m *model) pass(d time.Duration) {
	m.now = m.now.Add(d)
	m.step(Tick{})
	if w := m.c.Wake(); !w.IsZero() && !w.After(m.now) {
		m.t.Fatalf("state %s: wants a tick at once after a tick", m.c.State())
	}
}

// TestMakeBeforeBreak drives the controller through random events beside a
// manager that loads the table file at any time. No plan is published that uses
// a lane which the switches, or the table file, do not carry; no tables are
// written that close a lane of the plan in force, unless no plan could be made
// without it; never are two actions under way; and when all goes well again, it
// settles on the fabric as it is.
func TestMakeBeforeBreak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, c: New(testSettings), now: time.Unix(0, 0), file: tablesOf{"", modelLanes}, switches: tablesOf{"", modelLanes}}
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) { m.fabric = rapid.IntRange(0, 7).Draw(t, "fabric") },
			"sweep":  func(t *rapid.T) { m.sweep(0) },
			"find":   func(t *rapid.T) { m.find() },
			"hand":   func(t *rapid.T) { m.hand(!m.standby) },
			"load":   func(t *rapid.T) { m.switches = m.file },
			"lose":   func(t *rapid.T) { m.sweep(rapid.SampledFrom([]float64{0.3, 0.9}).Draw(t, "lost")) },
			"refuse": func(t *rapid.T) { m.step(Refused{"no fat tree"}) },
			"pass": func(t *rapid.T) {
				m.pass(time.Duration(rapid.SampledFrom([]int{0, 1, 3, 10, 60, 300}).Draw(t, "seconds")) * time.Second)
			},
			"reroute": func(t *rapid.T) { m.step(Reroute{}) },
			"restart": func(t *rapid.T) { m.step(TablesDoubted{}) },
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

// comeToRest has all go well, and wants the controller to settle on the fabric
// as it is, with every lane in use that is up.
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
			want := minus(modelLanes, modelFabric(m.fabric).Down)
			if !slices.Equal(m.used, want) {
				m.t.Fatalf("settled on fabric %s with a plan on %v, want %v", m.settled, m.used, want)
			}
			if len(m.c.raised) > 0 {
				m.t.Fatalf("settled, and warnings remain: %v", m.c.raised)
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
