package cablehealth

import (
	"fmt"
	"time"
)

// Event is what happened.
type Event interface{ event() }

// Round is a round of readings. Cables of whom it says nothing were not read; those that
// All leaves out have left the fabric's baseline.
type Round struct {
	Readings []Reading
	All      []Cable // ascending; nil means unchanged
}

// Reading is what was read of a cable.
type Reading struct {
	Cable Cable
	Gbps  float64      // its rate, in Gb/s
	Ends  [2]*Counters // the leaf's and the spine's; nil where an end was not read
	Slow  string       // why it is below its rate, "" if it is not
	Aside bool         // it is being maintained: what it counts says nothing
}

// Weighed answers Weigh: what taking the cable out would cost the exchange.
type Weighed struct {
	Cable  Cable
	Phases int    // more than now
	Refuse string // why it may not be taken out; empty where it may
}

// LinkDown reports that a cable went down, or below its rate: plans no longer use it.
type LinkDown struct {
	Cable Cable
	First bool // it was not seen up before
}

// LinkUp reports that a cable came up at its rate.
type LinkUp struct{ Cable Cable }

// Release is the operator's word that an isolated cable was mended: its test begins
// afresh, and its returns are forgotten.
type Release struct{ Cable Cable }

func (Round) event()    {}
func (Weighed) event()  {}
func (LinkDown) event() {}
func (LinkUp) event()   {}
func (Release) event()  {}

// Action is what is to be done.
type Action interface{ action() }

// Weigh asks what taking a cable out would cost; a Weighed answers it.
type Weigh struct{ Cable Cable }

// Changed reports a new state of a cable: isolated ones must be withheld from the plan from
// now on, others no longer.
type Changed struct {
	Cable    Cable
	From, To State
	Why      []string
	At       time.Time
	Phases   int // that its isolation costs the exchange
}

// Refused reports that an unhealthy cable stays in the plan, and why.
type Refused struct {
	Cable   Cable
	Why     []string // what is not well
	Because string   // why it stays
}

func (Weigh) action()   {}
func (Changed) action() {}
func (Refused) action() {}

// String describes the action.
func (a Weigh) String() string { return fmt.Sprintf("weigh %s", a.Cable) }

// String describes the action.
func (a Changed) String() string {
	text := fmt.Sprintf("%s: %s -> %s", a.Cable, a.From, a.To)
	for _, w := range a.Why {
		text += "\n  " + w
	}
	return text
}

// String describes the action.
func (a Refused) String() string { return fmt.Sprintf("%s stays: %s", a.Cable, a.Because) }
