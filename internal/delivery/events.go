package delivery

import (
	"fmt"
	"time"

	"github.com/forsd/forsd/lft"
)

// Event is what happened.
type Event interface{ event() }

// Tick says that time has passed; see Core.Wake.
type Tick struct{}

// Order has the tables of a fabric delivered. It is answered by Ordered, and no other
// order comes before that. Rewrite has the table file written where only its comments
// may differ.
type Order struct {
	Fabric  string
	Tables  *lft.Tables
	Rewrite bool
}

// Decline says that no tables will be made for a fabric, unless some are ordered later.
type Decline struct{ Fabric, Why string }

// FileWritten answers WriteFile. Changed says that a byte of the file differs now. After
// an error the file is as it was before.
type FileWritten struct {
	Changed bool
	Err     string
}

// Load has OpenSM load the tables ordered. It is answered by Sweep.
type Load struct{}

// Settle waits until the table file is written. It is answered by Settled.
type Settle struct{}

// Reading says that the tables of the switches are going to be read.
type Reading struct{}

// Read says what the switches held at some time since Reading. Match says that these are
// the tables ordered, entry by entry.
type Read struct {
	Tables *lft.Tables
	Match  bool
}

// Changing says that other tables may be planned for the fabric as it is: an order follows.
type Changing struct{}

// Forget says that what the switches hold is another manager's business.
type Forget struct{}

// Connected says that OpenSM's plugin has come.
type Connected struct{}

// Disconnected says that it has gone.
type Disconnected struct{}

// SweepStarted says that a sweep has begun, as the plugin tells of its stations.
type SweepStarted struct{}

// Routed says that the switches have confirmed the sweep's tables.
type Routed struct{}

// SweepEnded says that the sweep is over. It is answered by Loaded, or by nothing.
type SweepEnded struct{}

// Asked says that the plugin asks for the tables of a fabric, and waits for them until the
// deadline. It is answered by Answer, which bears the same number.
type Asked struct {
	Number   uint64
	Fabric   string
	Deadline time.Time
}

// Withdrawn says that the plugin waits no longer for the answer of this number.
type Withdrawn struct{ Number uint64 }

// Missed says that the sweep under way did without the tables that it was given.
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

// Action is what is to be done.
type Action interface{ String() string }

// WriteFile has the table file hold the tables ordered last. It is answered by
// FileWritten; there is one at a time.
type WriteFile struct{ Tables *lft.Tables }

// Ordered answers Order. Changed says that OpenSM has to load the tables; it may be
// mistaken, and a read-back shows that. Err says why OpenSM cannot get them.
type Ordered struct {
	Changed bool
	Err     string
}

// Answer answers Asked, with the tables, or why there are none.
type Answer struct {
	Number uint64
	Tables *lft.Tables
	Why    string // there will be none
	Late   bool   // they were not there in time
}

// How is what has OpenSM load the tables ordered.
type How uint8

// The ways, as Sweep says them.
const (
	ThisSweep  How = iota // the one under way loads them, or will ask for them
	LastSweep             // the one that has ended has
	NextSweep             // the plugin is to be told to sweep
	SweepAlone            // OpenSM is to be told to sweep without the plugin
)

var howNames = [...]string{"this sweep", "the last sweep", "another sweep by the plugin", "a sweep by signal"}

// String says which sweep it is.
func (h How) String() string { return howNames[h] }

// Sweep answers Load.
type Sweep struct{ By How }

// Settled answers Settle. Err says why the table file does not hold the tables ordered.
type Settled struct{ Err string }

// Loaded says that the sweep which has ended counts as the one that was to load the
// tables.
type Loaded struct{}

// String prints the action.
func (WriteFile) String() string { return "write the file" }

// String prints the action.
func (a Ordered) String() string {
	switch {
	case a.Err != "":
		return "ordered: " + a.Err
	case a.Changed:
		return "ordered: changed"
	}
	return "ordered: the same"
}

// String prints the action without the tables.
func (a Answer) String() string {
	switch {
	case a.Late:
		return fmt.Sprintf("answer %d: late", a.Number)
	case a.Tables == nil:
		return fmt.Sprintf("answer %d: none: %s", a.Number, a.Why)
	}
	return fmt.Sprintf("answer %d: tables", a.Number)
}

// String prints the action.
func (a Sweep) String() string { return "load by " + a.By.String() }

// String prints the action.
func (a Settled) String() string {
	if a.Err != "" {
		return "settled: " + a.Err
	}
	return "settled"
}

// String prints the action.
func (Loaded) String() string { return "loaded" }
