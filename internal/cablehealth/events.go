package cablehealth

import (
	"fmt"
	"time"

	"github.com/forsd/forsd/ib"
)

// Event is an input of the monitor.
type Event interface{ event() }

// Round is a round of readings. Cables without a reading were not read; those missing from All
// have left the fabric's baseline.
type Round struct {
	Readings []Reading
	All      []Cable // ascending; nil means unchanged
}

// Reading is a reading of a cable.
type Reading struct {
	Cable Cable
	Gbps  float64         // its rate, in Gb/s
	Ends  [2]*ib.Counters // the leaf's and the spine's; nil if an end was not read
	Slow  string          // why it is below its rate, or ""
	Aside bool            // in maintenance: its counters are ignored
}

// Measured is what the times of an exchange tell of cables. Those whose transfers do not tell
// anything are missing.
type Measured []Measurement

// Measurement is what the transfers of a cable tell.
type Measurement struct {
	Cable     Cable
	At        time.Time
	Gbps      float64 // median throughput of a transfer; 0: not known
	Slowdown  float64 // median, as a part of the time of others
	Error     float64 // half the width of the interval that has it with 95 %
	Transfers int
	Slow      bool // it is slower than others, and no other part explains that
}

// Weighed answers Weigh with the cost of isolating the cable.
type Weighed struct {
	Cable  Cable
	Phases int    // more than now
	Refuse string // why it may not be isolated, or ""
	Needed bool   // without it there is no plan, or servers do not reach each other
}

// Short reports that a plan leaves out servers, or none could be made: the costs of isolated
// cables are asked for again, and those that are needed come back.
type Short struct{}

// LinkDown reports that a cable went down, or below its rate: plans no longer use it.
type LinkDown struct {
	Cable Cable
	First bool // it had not been seen up before
}

// LinkUp reports that a cable came up at its rate.
type LinkUp struct{ Cable Cable }

// Release is the operator's statement that an isolated cable was repaired: its test starts
// again, and its earlier returns are dropped.
type Release struct{ Cable Cable }

func (Round) event()    {}
func (Measured) event() {}
func (Weighed) event()  {}
func (LinkDown) event() {}
func (LinkUp) event()   {}
func (Release) event()  {}
func (Short) event()    {}

// Action is an output of the monitor.
type Action interface{ action() }

// Weigh requests the cost of isolating a cable; a Weighed answers it.
type Weigh struct{ Cable Cable }

// Changed reports a new state of a cable. From now on, isolated cables must be withheld from
// the plan, and others must not.
type Changed struct {
	Cable    Cable
	From, To State
	Why      []string
	At       time.Time
	Phases   int    // cost of its isolation
	Because  string // why it comes back though it may not be well, or ""
}

// Refused reports that an unhealthy cable stays in the plan, and why.
type Refused struct {
	Cable   Cable
	Why     []string // the faults
	Because string   // why it stays
}

func (Weigh) action()   {}
func (Changed) action() {}
func (Refused) action() {}

func (a Weigh) String() string { return fmt.Sprintf("weigh %s", a.Cable) }

func (a Changed) String() string {
	text := fmt.Sprintf("%s: %s -> %s", a.Cable, a.From, a.To)
	for _, w := range a.Why {
		text += "\n  " + w
	}
	if a.Because != "" {
		text += "\n  back: " + a.Because
	}
	return text
}

func (a Refused) String() string { return fmt.Sprintf("%s stays: %s", a.Cable, a.Because) }
