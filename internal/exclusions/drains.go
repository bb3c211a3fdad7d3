// Package exclusions has the parts of the fabric that are kept out of the plan by decision: the
// set of such cables with their causes, and the drains, by which an operator takes cables and
// switches out for maintenance.
//
// The drains are a pure state machine like the controller. Its input is orders, and the remaining
// uses by plans and tables. Its output is the parts to exclude, and when a part is safe to pull.
//
// A drained part leaves the plan first, and then the tables, as a withheld lane. It is safe to
// pull when neither a plan in force nor a table that the switches may hold leads over it.
// Tables also affect exchanges that continue by the previous plan: their packets follow the new
// tables too. The hosts of a leaf have no other path, so a leaf is safe when no plan includes
// them, and earlier exchanges have had time to end.
package exclusions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Kind is the kind of a part.
type Kind string

// The kinds of parts.
const (
	Cable Kind = "cable"
	Spine Kind = "spine" // of two levels
	Leaf  Kind = "leaf"
	Mid   Kind = "mid" // of three levels
	Top   Kind = "top" // of three levels
)

// Part is a part of the fabric, by identifiers that survive its absence and a new baseline.
type Part struct {
	Kind Kind    `json:"kind"`
	GUID ib.GUID `json:"guid"`           // of the switch; of a cable, its lower end
	Port uint8   `json:"port,omitempty"` // of a cable, at its lower end
}

// String names the part for transcripts.
func (p Part) String() string {
	if p.Kind == Cable {
		return fmt.Sprintf("%s %s/%d", p.Kind, p.GUID, p.Port)
	}
	return fmt.Sprintf("%s %s", p.Kind, p.GUID)
}

// State is the state of a drain.
type State string

// The states.
const (
	Scheduled State = "scheduled" // it has not begun
	Draining  State = "draining"  // on its way out of plans and tables
	Safe      State = "safe"      // no traffic uses it: it may be pulled
)

// Drain is a drained part.
type Drain struct {
	Part
	Name    string    `json:"name"` // of the part at the time of the order
	Reason  string    `json:"reason,omitempty"`
	By      string    `json:"by,omitempty"` // who ordered it
	Ordered time.Time `json:"ordered"`
	At      time.Time `json:"at,omitzero"`    // when it begins; zero means immediately
	Until   time.Time `json:"until,omitzero"` // when it ends; zero means never
	State   State     `json:"state"`
	Since   time.Time `json:"since"`          // of the state
	Clear   time.Time `json:"clear,omitzero"` // since when nothing has used it
	Uses    []string  `json:"uses,omitempty"` // the remaining uses while draining
}

// Active reports whether the part is out of the plan, or is being taken out.
func (d *Drain) Active() bool { return d.State != Scheduled }

// MostDrains is the maximum number of drains.
const MostDrains = 256

// DrainSettings are the settings of a machine.
type DrainSettings struct {
	// Grace is the maximum duration of an exchange that began with the previous plan. A leaf is
	// not safe until it has passed.
	Grace time.Duration
	Look  time.Duration // interval between checks of the uses of parts
}

// Drains manages the drains. Create it with NewDrains.
type Drains struct {
	set    DrainSettings
	list   []Drain   // in the order of the orders
	looked time.Time // the last time the uses were requested
	out    []Action
}

// NewDrains returns a machine without drains.
func NewDrains(s DrainSettings) *Drains { return &Drains{set: s} }

// List returns all drains in the order of the orders. The result does not change later.
func (m *Drains) List() []Drain {
	out := slices.Clone(m.list)
	for i := range out {
		out[i].Uses = slices.Clone(out[i].Uses)
	}
	return out
}

// Wake returns the latest time for the next Tick; zero means never.
func (m *Drains) Wake() (first time.Time) {
	due := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	for i := range m.list {
		d := &m.list[i]
		due(d.Until)
		switch d.State {
		case Scheduled:
			due(d.At)
		case Draining:
			due(m.looked.Add(m.set.Look))
			if !d.Clear.IsZero() {
				due(m.safeAt(d))
			}
		}
	}
	return first
}

// safeAt returns the time when an unused part becomes safe.
func (m *Drains) safeAt(d *Drain) time.Time {
	if d.Kind == Leaf {
		return d.Clear.Add(m.set.Grace)
	}
	return d.Clear
}

// Step handles an event and returns the resulting actions in order.
func (m *Drains) Step(now time.Time, e Event) []Action {
	m.out = nil
	switch e := e.(type) {
	case Load:
		m.list, m.looked = slices.Clone(e.Drains), now // due changes wait for the next event, because a forsd that only follows makes none
		for i := range m.list {
			d := &m.list[i]
			switch {
			case !e.Led && d.State == Safe:
				d.State, d.Since = Draining, now
				fallthrough
			case !e.Led:
				d.Clear = time.Time{}
			case d.Clear.After(now):
				d.Clear = now // the leader's clock is ahead
			}
		}
		m.do(Follow{})
		return m.out
	case Order:
		m.order(now, e.Drain)
	case End:
		m.end(e.Part, "ended")
	case Settled:
		m.look(now)
	case Looked:
		m.applyUses(now, e)
	}
	m.tick(now)
	return m.out
}

func (m *Drains) do(a Action) { m.out = append(m.out, a) }

// find returns the drain of a part, or nil.
func (m *Drains) find(p Part) *Drain {
	for i := range m.list {
		if m.list[i].Part == p {
			return &m.list[i]
		}
	}
	return nil
}

// order handles an order to drain. An existing drain of the part is changed and does not
// restart.
func (m *Drains) order(now time.Time, d Drain) {
	d.Ordered, d.State, d.Since, d.Clear, d.Uses = now, Scheduled, now, time.Time{}, nil
	if old := m.find(d.Part); old != nil {
		if old.Active() && !now.Before(d.At) {
			d.State, d.Since, d.Clear, d.Uses, d.At = old.State, old.Since, old.Clear, old.Uses, old.At
		}
		was := *old
		*old = d
		if m.do(Tell{*old, "changed"}); was.Active() && !old.Active() {
			m.do(Follow{"the drain of " + d.Name + " was put off"})
		} else {
			m.do(Keep{})
		}
		return
	}
	m.list = append(m.list, d)
	m.do(Tell{d, "ordered"})
	m.do(Keep{})
}

// end gives a part back.
func (m *Drains) end(p Part, what string) {
	d := m.find(p)
	if d == nil {
		return
	}
	was := *d
	m.list = slices.DeleteFunc(m.list, func(d Drain) bool { return d.Part == p })
	if m.do(Tell{was, what}); was.Active() {
		m.do(Follow{was.Name + " is no longer drained"})
	} else {
		m.do(Keep{})
	}
}

// tick makes the changes that are due.
func (m *Drains) tick(now time.Time) {
	for _, d := range slices.Clone(m.list) {
		if !d.Until.IsZero() && !now.Before(d.Until) {
			m.end(d.Part, "expired")
		}
	}
	late := false
	for i := range m.list {
		d := &m.list[i]
		switch {
		case d.State == Scheduled && !now.Before(d.At):
			d.State, d.Since = Draining, now
			m.do(Tell{*d, "begun"})
			m.do(Follow{d.Name + " is drained"})
		case d.State == Draining && !d.Clear.IsZero() && !now.Before(m.safeAt(d)):
			d.State, d.Since = Safe, now
			m.do(Tell{*d, "safe to pull"})
			m.do(Keep{})
		}
		late = late || d.State == Draining
	}
	if late && !now.Before(m.looked.Add(m.set.Look)) {
		m.look(now)
	}
}

// look requests the uses of the drained parts, if there are any.
func (m *Drains) look(now time.Time) {
	if slices.ContainsFunc(m.list, func(d Drain) bool { return d.Active() }) {
		m.looked = now
		m.do(Look{})
	}
}

// applyUses handles the uses of the parts. The uses of a part that was not examined are
// unknown.
func (m *Drains) applyUses(now time.Time, e Looked) {
	for i := range m.list {
		d := &m.list[i]
		uses, known := e.Uses[d.Part]
		if !known || !d.Active() {
			continue
		}
		switch news := !slices.Equal(d.Uses, uses); {
		case len(uses) == 0:
			d.Uses = nil
			if d.Clear.IsZero() {
				d.Clear = now
				m.do(Keep{})
			}
		case d.State == Safe:
			d.State, d.Since, d.Clear, d.Uses = Draining, now, time.Time{}, uses
			m.do(Tell{*d, "in use again"})
			m.do(Keep{})
		case news || !d.Clear.IsZero():
			d.Clear, d.Uses = time.Time{}, uses
			m.do(Keep{})
		}
	}
}

// DrainedWarning is the code of the warning that lists the drained parts.
const DrainedWarning = "drained"

// APIView returns the drain in the API's form, without its cables.
func (d *Drain) APIView() api.Drain {
	return api.Drain{Kind: string(d.Kind), Name: d.Name, GUID: d.GUID, Port: d.Port, State: string(d.State), Since: d.Since,
		At: d.At, Until: d.Until, Reason: d.Reason, By: d.By, Uses: append([]string{}, d.Uses...)}
}

// Resolve lists the drains that a text refers to: all, a part of a tree in the notation of Find,
// a drain by its name, or the GUIDs of its part. Other drained cables are found by their ends
// at the time of the drain, because another cable may have their lane now.
func Resolve(t *topology.FatTree, all []Drain, text string) (out []Part) {
	part := Part{}
	if t != nil {
		part, _, _ = Find(t, text)
	}
	end := text
	if node, port, ok := topology.CutPort(text); ok {
		end = node + portOf + port
	}
	for _, means := range []func(d *Drain) bool{
		func(d *Drain) bool {
			return text == "all" || d.Part == part || text == d.Name || text == d.GUID.String() && d.Kind != Cable || d.Kind == Cable && text == fmt.Sprintf("%s/%d", d.GUID, d.Port)
		},
		func(d *Drain) bool { return d.Kind == Cable && slices.Contains(strings.Split(d.Name, between), end) },
	} {
		for i := range all {
			if means(&all[i]) {
				out = append(out, all[i].Part)
			}
		}
		if out != nil {
			break
		}
	}
	return out
}

// The separators in the name of a cable: between its ends, and between switch and port.
const between, portOf = " – ", " port "

// Text describes the state of a drained part.
func (d *Drain) Text() string {
	text := d.Name + " is safe to pull"
	switch {
	case d.State == Safe:
	case len(d.Uses) > 0:
		text = fmt.Sprintf("%s is being drained: %s", d.Name, strings.Join(d.Uses, ", "))
	case !d.Clear.IsZero():
		text = d.Name + " is being drained: exchanges by the plan before have their time to end"
	default:
		text = d.Name + " is being drained"
	}
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	if !d.Until.IsZero() {
		text += ", until " + d.Until.Local().Format(time.DateTime)
	}
	return text
}
