// Package cablehealth judges cables by the error counters of their two ends, and by the times of
// exchanges. Its input is rounds of readings and measurements, and its output the cables to
// isolate, to take back and to report. It is a pure state machine like the controller: it reads
// no counters, starts no goroutines, and the caller supplies the time.
//
// The rules for symbol errors, packet drops and links that went down are those published for
// NVIDIA's PDR deterministic plugin (UFM Enterprise User Manual): two windows with a bit error
// rate each, a rate of dropped packets, a test time without errors before a port comes back,
// and a limit on the number of returns. There are two additions: a cable is isolated only if
// that costs the exchange no more phases than the operator allows, and it is on probation after
// it comes back.
package cablehealth

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/ib"
)

// Mode is the treatment of a faulty cable.
type Mode string

// The modes.
const (
	Off     Mode = "off"     // cables are not judged
	Report  Mode = "report"  // faulty cables are reported, and stay in use
	Isolate Mode = "isolate" // faulty cables are taken out of the plan
)

// Settings are the thresholds. The tag yaml is the key in forsd.yaml.
type Settings struct {
	Mode Mode `yaml:"mode" one:"off report isolate"`
	// Short and Long are the two windows for symbol errors, and ShortBER and LongBER the
	// permitted bit error rates over them.
	Short    time.Duration `yaml:"short"`
	ShortBER float64       `yaml:"short_ber" is:"rate"`
	Long     time.Duration `yaml:"long"`
	LongBER  float64       `yaml:"long_ber" is:"rate"`
	// Flaps is how many times within Long forsd may see the cable go down.
	Flaps int `yaml:"flaps" is:"count"`
	// Test is how long an isolated cable must be without errors before it comes back. It
	// doubles each time the cable is isolated again. Probation is how long the cable is watched
	// after that.
	Test      time.Duration `yaml:"test"`
	Probation time.Duration `yaml:"probation"`
	// PerLeaf and InAll are the maximum numbers of isolated cables at one leaf and in total. An
	// InAll of 0 means 10, or one in 200 of the cables if that is more.
	PerLeaf int `yaml:"per_leaf" is:"count"`
	InAll   int `yaml:"in_all" is:"count"`
	// Slow is by how much longer than others the transfers of a cable may take, as a part of
	// their time; 0 means that this is not judged. IsolateSlow isolates cables for that alone.
	Slow        float64 `yaml:"slow"`
	IsolateSlow bool    `yaml:"isolate_slow"`
}

// Defaults returns the published thresholds, and forsd's own for those that are not published.
func Defaults() Settings {
	return Settings{Mode: Report, Short: 12 * time.Minute, Long: 125 * time.Minute, ShortBER: 1e-14, LongBER: 1e-15,
		Flaps: 3, Test: 126 * time.Minute, Probation: 125 * time.Minute, PerLeaf: 2, Slow: 0.1}
}

// Further limits within Short: the share of dropped packets, and the numbers of link recoveries
// and of discarded packets at an end. No other errors are permitted.
const (
	maxDrops      = 1e-12
	maxRecoveries = 10
	maxDiscards   = 100
)

// A cable may come back maxReturns times within returnsWithin. After that it waits for the
// operator.
const (
	maxReturns    = 2
	returnsWithin = 7 * 24 * time.Hour
)

// Cable is a cable between a leaf and a spine, identified by its two ends, the leaf's first.
type Cable struct {
	Leaf  ib.End `json:"leaf"`
	Spine ib.End `json:"spine"`
}

// String names the cable.
func (c Cable) String() string {
	return fmt.Sprintf("%s/%d – %s/%d", c.Leaf.GUID, c.Leaf.Port, c.Spine.GUID, c.Spine.Port)
}

// Compare orders cables by their leaf's end, then by their spine's.
func Compare(a, b Cable) int {
	return cmp.Or(a.Leaf.Compare(b.Leaf), a.Spine.Compare(b.Spine))
}

// State is the state of a cable.
type State string

// The states.
const (
	Good      State = "good"
	Suspect   State = "suspect"   // beyond a threshold, but in the plan
	Isolated  State = "isolated"  // out of the plan
	Probation State = "probation" // back in the plan, and watched
)

// Monitor judges the cables of a fabric. Create it with New.
type Monitor struct {
	set    Settings
	cables map[Cable]*watched
	order  []Cable   // ascending
	read   time.Time // the time of the last round
	out    []Action
}

// watched is the monitor's data about a cable.
type watched struct {
	Record
	ends    [2]history // the leaf's, the spine's
	gbps    float64
	up      bool         // at full rate: in the plan unless isolated
	downs   []time.Time  // times when it went down, within Long
	slow    string       // why it is below its rate, or ""
	timed   *Measurement // the last since it came up, or nil
	verdict []string     // the current faults; empty for a healthy cable
	counted int          // those of them that do not follow from timed
	told    string       // the last reported refusal
	asked   bool         // its cost was requested
}

// Record is the state of a cable that must survive a restart.
type Record struct {
	State   State       `json:"state"`
	Since   time.Time   `json:"since"`             // of the state
	Clean   time.Time   `json:"clean,omitzero"`    // since when an isolated cable has had no errors
	Returns []time.Time `json:"returns,omitempty"` // times when it came back, within returnsWithin
	Why     []string    `json:"why,omitempty"`     // the reasons for its isolation
}

// Moved returns the record with its times converted by the function, for storage across a
// change of the clock.
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

// New returns a monitor without cables. The records come from Records before a restart or a
// change of settings. If the new settings do not isolate cables, isolated ones become suspect.
func New(s Settings, records map[Cable]Record) *Monitor {
	m := &Monitor{set: s, cables: map[Cable]*watched{}}
	for c, r := range records {
		if s.Mode != Isolate && (r.State == Isolated || r.State == Probation) {
			r.State = Suspect
		}
		m.watch(c).Record = r
	}
	return m
}

// watch returns a cable's state, and begins it where there is none.
func (m *Monitor) watch(c Cable) *watched {
	if w := m.cables[c]; w != nil {
		return w
	}
	w := &watched{Record: Record{State: Good}, up: true}
	m.cables[c] = w
	at, _ := slices.BinarySearchFunc(m.order, c, Compare)
	m.order = slices.Insert(m.order, at, c)
	return w
}

// Records returns the records of the cables that are isolated, on probation, or were isolated
// within a week.
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

// Cables calls f for every watched cable, in ascending order.
func (m *Monitor) Cables(f func(Cable, View)) {
	for _, c := range m.order {
		w := m.cables[c]
		f(c, View{w.Record, w.verdict, w.told, w.timed, [2]Rates{w.ends[0].rates(m.set.Short), w.ends[1].rates(m.set.Short)}})
	}
}

// View is the published state of a cable.
type View struct {
	Record
	Verdict []string     // the current faults
	Refused string       // why the cable stays in the plan, or "" if it may be isolated
	Timed   *Measurement // the last since it came up, or nil
	Rates   [2]Rates     // of the leaf's end and the spine's, over Short
}

// linkDown records that a cable is out of the plan anyway.
func (m *Monitor) linkDown(now time.Time, e LinkDown) {
	w := m.watch(e.Cable)
	if w.up && !e.First {
		w.downs = append(w.downs, now)
	}
	w.up, w.timed = false, nil
}

// Step handles an event and returns the resulting actions, in an order that depends only on the
// input.
func (m *Monitor) Step(now time.Time, e Event) []Action {
	m.out = nil
	switch e := e.(type) {
	case Round:
		m.round(now, e)
	case Measured:
		m.measured(now, e)
	case Weighed:
		m.weighed(now, e)
	case LinkDown:
		m.linkDown(now, e)
	case LinkUp:
		if w := m.cables[e.Cable]; w != nil && !w.up {
			w.up, w.Clean = true, now
		}
	case Release: // the test of an isolated cable starts again, and its earlier returns are dropped
		if w := m.cables[e.Cable]; w != nil && w.State == Isolated {
			w.Returns = nil
			m.takeBack(now, e.Cable, w, "")
		}
	case Short:
		for _, c := range m.Isolated() {
			m.weigh(c, m.cables[c])
		}
	}
	return m.out
}
