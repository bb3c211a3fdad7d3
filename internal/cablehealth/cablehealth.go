// Package cablehealth judges cables by the error counters of their two ends. Rounds of
// readings go in; what to isolate, to take back and to report comes out. It is a pure
// state machine like the controller: it reads no counter, starts no goroutine, and time
// is what the caller says it is.
//
// The rules for symbol errors, packet drops and links that went down are those published
// for NVIDIA's PDR deterministic plugin (UFM Enterprise User Manual): two windows with a
// bit error rate each, a rate of dropped packets, a test time without errors before a
// port comes back, and an end to coming back. What is ours is that a cable is isolated
// only where that costs the exchange no more phases than the operator allows, and that
// it is on probation after it has come back.
package cablehealth

import (
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/topology"
)

// Mode is what is done about a cable that is not well.
type Mode string

// The modes.
const (
	Off     Mode = "off"     // nothing is judged
	Report  Mode = "report"  // it is reported, and carries on
	Isolate Mode = "isolate" // it is taken out of the plan
)

// Settings are the thresholds. The tag yaml is the key of forsd.yaml.
type Settings struct {
	Mode Mode `yaml:"mode" one:"off report isolate"`
	// Short and Long are the two windows of symbol errors, and ShortBER and LongBER the
	// bit error rates over them that a cable may have.
	Short    time.Duration `yaml:"short"`
	ShortBER float64       `yaml:"short_ber"`
	Long     time.Duration `yaml:"long"`
	LongBER  float64       `yaml:"long_ber"`
	// Flaps is how often within Long the cable may go down as forsd has seen it.
	Flaps int `yaml:"flaps"`
	// Test is how long a cable that is isolated must be without errors before it comes
	// back, doubled with each time that it was isolated again. Probation is how long it
	// is watched then.
	Test      time.Duration `yaml:"test"`
	Probation time.Duration `yaml:"probation"`
	// PerLeaf and InAll are how many cables may be isolated at one leaf and in all; InAll
	// 0 is for 10, or one in 200 of the cables where that is more.
	PerLeaf int `yaml:"per_leaf"`
	InAll   int `yaml:"in_all"`
}

// Defaults returns the published thresholds, and ours where nothing is published.
func Defaults() Settings {
	return Settings{Mode: Report, Short: 12 * time.Minute, Long: 125 * time.Minute, ShortBER: 1e-14, LongBER: 1e-15,
		Flaps: 3, Test: 126 * time.Minute, Probation: 125 * time.Minute, PerLeaf: 2}
}

// What else may be counted within Short: a share of the packets may be dropped, and at an end
// the link may recover and packets be discarded so often. Nothing else may happen.
const (
	maxDrops      = 1e-12
	maxRecoveries = 10
	maxDiscards   = 100
)

// A cable comes back maxReturns times within returnsWithin. After that it waits for the
// operator.
const (
	maxReturns    = 2
	returnsWithin = 7 * 24 * time.Hour
)

// End is a port of a switch.
type End struct {
	GUID topology.GUID `json:"guid"`
	Port uint8         `json:"port"`
}

// Cable is a cable between a leaf and a spine by its two ends, the leaf's first.
type Cable struct {
	Leaf  End `json:"leaf"`
	Spine End `json:"spine"`
}

// String names the cable.
func (c Cable) String() string {
	return fmt.Sprintf("%s/%d – %s/%d", c.Leaf.GUID, c.Leaf.Port, c.Spine.GUID, c.Spine.Port)
}

func compareEnds(a, b End) int {
	switch {
	case a.GUID != b.GUID && a.GUID < b.GUID || a.GUID == b.GUID && a.Port < b.Port:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// Compare orders cables by their leaf's end, then by their spine's.
func Compare(a, b Cable) int {
	if c := compareEnds(a.Leaf, b.Leaf); c != 0 {
		return c
	}
	return compareEnds(a.Spine, b.Spine)
}

// State is how a cable stands.
type State string

// The states.
const (
	Good      State = "good"
	Suspect   State = "suspect"   // beyond a threshold, and in the plan
	Isolated  State = "isolated"  // out of the plan
	Probation State = "probation" // back in the plan, and watched
)

// Monitor judges the cables of a fabric. Create it with New.
type Monitor struct {
	set    Settings
	cables map[Cable]*watched
	order  []Cable   // ascending
	read   time.Time // when the last round was read
	out    []Action
}

// watched is what is known of a cable.
type watched struct {
	Record
	ends    [2]history // the leaf's, the spine's
	gbps    float64
	up      bool        // it is there at its full rate: in the plan unless it is isolated
	downs   []time.Time // when it went down, within Long
	slow    string      // why it is below its rate, "" where it is not
	verdict []string    // the reasons of the last round, none where it is well
	told    string      // the last refusal that was reported
	asked   bool        // its cost was asked for
}

// Record is what must survive a restart.
type Record struct {
	State   State       `json:"state"`
	Since   time.Time   `json:"since"`             // of the state
	Clean   time.Time   `json:"clean,omitzero"`    // since when an isolated cable has been without errors
	Returns []time.Time `json:"returns,omitempty"` // when it came back, within returnsWithin
	Why     []string    `json:"why,omitempty"`     // the reasons for which it was isolated
}

// Moved returns the record with its times as by gives them, to be stored and read back
// where the clock may be set in the meantime.
func (r Record) Moved(by func(time.Time) time.Time) Record {
	for _, t := range []*time.Time{&r.Since, &r.Clean} {
		if !t.IsZero() {
			*t = by(*t)
		}
	}
	r.Returns = slices.Clone(r.Returns)
	for i := range r.Returns {
		r.Returns[i] = by(r.Returns[i])
	}
	return r
}

// New watches no cable yet. The records are those of Records before a restart or a change
// of settings; where cables are not isolated any more, those that were are suspect.
func New(s Settings, records map[Cable]Record) *Monitor {
	m := &Monitor{set: s, cables: map[Cable]*watched{}}
	for c, r := range records {
		if s.Mode != Isolate && (r.State == Isolated || r.State == Probation) {
			r.State = Suspect
		}
		m.add(c).Record = r
	}
	return m
}

func (m *Monitor) add(c Cable) *watched {
	w := &watched{Record: Record{State: Good}, up: true}
	m.cables[c] = w
	at, _ := slices.BinarySearchFunc(m.order, c, Compare)
	m.order = slices.Insert(m.order, at, c)
	return w
}

// Records returns those of the cables that are isolated, on probation, or have been
// isolated within a week.
func (m *Monitor) Records() map[Cable]Record {
	out := map[Cable]Record{}
	for c, w := range m.cables {
		if w.State == Isolated || w.State == Probation || len(w.Returns) > 0 {
			out[c] = w.Record
		}
	}
	return out
}

// Isolated lists the cables that are out of the plan, ascending.
func (m *Monitor) Isolated() []Cable {
	var out []Cable
	for _, c := range m.order {
		if m.cables[c].State == Isolated {
			out = append(out, c)
		}
	}
	return out
}

// Cables calls f with every cable that is watched, ascending.
func (m *Monitor) Cables(f func(Cable, View)) {
	for _, c := range m.order {
		w := m.cables[c]
		f(c, View{w.Record, w.verdict, w.told, [2]Rates{w.ends[0].rates(m.set.Short), w.ends[1].rates(m.set.Short)}})
	}
}

// View is a cable as it is shown.
type View struct {
	Record
	Verdict []string // what is not well now
	Refused string   // why it stays in the plan all the same, "" where nothing is against taking it out
	Rates   [2]Rates // of the leaf's end and the spine's, over Short
}

// linkDown notes that a cable is out of the plan anyway.
func (m *Monitor) linkDown(now time.Time, e LinkDown) {
	w := m.cables[e.Cable]
	if w == nil {
		w = m.add(e.Cable)
	}
	if w.up && !e.First {
		w.downs = append(w.downs, now)
	}
	w.up = false
}

// Step carries an event out at a time, and says what is to be done, in an order that
// depends on the input alone.
func (m *Monitor) Step(now time.Time, e Event) []Action {
	m.out = nil
	switch e := e.(type) {
	case Round:
		m.round(now, e)
	case Weighed:
		m.weighed(now, e)
	case LinkDown:
		m.linkDown(now, e)
	case LinkUp:
		if w := m.cables[e.Cable]; w != nil && !w.up {
			w.up, w.Clean = true, now
		}
	case Release:
		m.release(now, e.Cable)
	}
	return m.out
}
