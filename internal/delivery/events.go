package delivery

import (
	"fmt"
	"time"

	"github.com/forsd/forsd/lft"
)

// Event is an input of the core.
type Event interface{ event() }

// Tick reports that time has passed; see Core.Wake.
type Tick struct{}

// Order requests the delivery of a fabric's tables. The response is Ordered, and the next
// Order comes after it. Rewrite requests writing the table file even if only its comments
// differ.
type Order struct {
	Fabric  string
	Tables  *lft.Tables
	Rewrite bool
}

// Decline announces that no tables will be made for a fabric. A later Order overrides it.
type Decline struct{ Fabric, Why string }

// FileWritten is the response to WriteFile. Changed means that the file's bytes differ now.
// After an error the file is unchanged.
type FileWritten struct {
	Changed bool
	Err     string
}

// Load requests that OpenSM load the tables ordered. The response is Sweep.
type Load struct{}

// Settle waits until the table file is written. The response is Settled.
type Settle struct{}

// Reading announces that reading the switches' tables begins.
type Reading struct{}

// Read reports what the switches held at some time since Reading. Match means that these
// are the tables ordered, entry by entry.
type Read struct {
	Tables *lft.Tables
	Match  bool
}

// Changing announces that other tables may be planned for the present fabric; an Order
// follows.
type Changing struct{}

// Forget reports that another manager routes the switches now.
type Forget struct{}

// Connected reports that OpenSM's plugin has connected.
type Connected struct{}

// Disconnected reports that it has disconnected.
type Disconnected struct{}

// SweepStarted reports that a sweep has begun. It comes from the plugin.
type SweepStarted struct{}

// Routed reports that the switches have acknowledged the sweep's tables.
type Routed struct{}

// SweepEnded reports that the sweep is over. The response is Loaded or nothing.
type SweepEnded struct{}

// Asked reports that the plugin asks for the tables of a fabric and waits for them until
// the deadline. The response is an Answer with the same number.
type Asked struct {
	Number   uint64
	Fabric   string
	Deadline time.Time
}

// Withdrawn reports that the plugin no longer waits for the answer with this number.
type Withdrawn struct{ Number uint64 }

// Missed reports that the current sweep did not use the tables that it was given.
type Missed struct{}

func (Tick) event()         {}
func (Order) event()        {}
func (Decline) event()      {}
func (FileWritten) event()  {}
func (Load) event()         {}
func (Settle) event()       {}
func (Read) event()         {}
func (Reading) event()      {}
func (Changing) event()     {}
func (Forget) event()       {}
func (Connected) event()    {}
func (Disconnected) event() {}
func (SweepStarted) event() {}
func (Routed) event()       {}
func (SweepEnded) event()   {}
func (Asked) event()        {}
func (Withdrawn) event()    {}
func (Missed) event()       {}

// Action is an output of the core; its String is its form in transcripts.
type Action interface{ String() string }

// WriteFile writes the tables ordered last to the table file. The response is FileWritten.
// There is one at a time.
type WriteFile struct{ Tables *lft.Tables }

// Ordered is the response to Order. Changed means that OpenSM has to load the tables; it
// may be wrong, which a read-back detects. Err is why OpenSM cannot get them.
type Ordered struct {
	Changed bool
	Err     string
}

// Answer is the response to Asked: the tables, or why there are none.
type Answer struct {
	Number uint64
	Tables *lft.Tables
	Why    string // no tables will be made
	Late   bool   // the tables did not exist in time
}

// How is the sweep by which OpenSM loads the tables ordered.
type How uint8

// The values of How.
const (
	ThisSweep  How = iota // the current one loads them or will ask for them
	LastSweep             // the last one loaded them
	NextSweep             // the plugin must be asked for one
	SweepAlone            // OpenSM must be asked for one, without the plugin
)

var howNames = [...]string{"this sweep", "the last sweep", "another sweep by the plugin", "a sweep by signal"}

// String returns the sweep's name.
func (h How) String() string { return howNames[h] }

// Sweep is the response to Load.
type Sweep struct{ By How }

// Settled is the response to Settle. Err is why the table file does not hold the tables
// ordered.
type Settled struct{ Err string }

// Loaded reports that the last sweep counts as having loaded the tables
// ordered.
type Loaded struct{}

func (WriteFile) String() string { return "write the file" }

func (a Ordered) String() string {
	switch {
	case a.Err != "":
		return "ordered: " + a.Err
	case a.Changed:
		return "ordered: changed"
	}
	return "ordered: the same"
}

// String returns the action's line in transcripts, without the tables.
func (a Answer) String() string {
	switch {
	case a.Late:
		return fmt.Sprintf("answer %d: late", a.Number)
	case a.Tables == nil:
		return fmt.Sprintf("answer %d: none: %s", a.Number, a.Why)
	}
	return fmt.Sprintf("answer %d: tables", a.Number)
}

func (a Sweep) String() string { return "load by " + a.By.String() }

func (a Settled) String() string {
	if a.Err != "" {
		return "settled: " + a.Err
	}
	return "settled"
}

func (Loaded) String() string { return "loaded" }
