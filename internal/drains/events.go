package drains

import (
	"fmt"
	"strings"
)

// Event is what happened.
type Event interface{ event() }

// Tick reports that time has passed; see Machine.Wake.
type Tick struct{}

// Load replaces all drains, by those stored or those of the forsd that led before.
type Load struct{ Drains []Drain }

// Order takes a part out, at its time.
type Order struct{ Drain }

// End gives a part back.
type End struct{ Part }

// Settled reports that plans and tables in force fit the fabric and the withheld parts.
type Settled struct{}

// Looked answers Look: for each part that was looked at, what still leads over it.
type Looked struct{ Uses map[Part][]string }

func (Tick) event()    {}
func (Load) event()    {}
func (Order) event()   {}
func (End) event()     {}
func (Settled) event() {}
func (Looked) event()  {}

// Action is what is to be done.
type Action interface{ String() string }

// Follow requests that plans and tables follow a changed set of drained parts, and that the
// drains are stored. Why describes the decision.
type Follow struct{ Why string }

// Keep requests that the drains are stored.
type Keep struct{}

// Look asks what leads over the parts that are out; Looked answers it, or another Look
// comes.
type Look struct{}

// Tell reports a change of a drain.
type Tell struct {
	Drain Drain
	What  string
}

// String prints the action as the transcripts show it.
func (a Follow) String() string { return "follow: " + a.Why }

// String prints the action as the transcripts show it.
func (Keep) String() string { return "keep" }

// String prints the action as the transcripts show it.
func (Look) String() string { return "look" }

// String prints the action as the transcripts show it.
func (a Tell) String() string {
	s := fmt.Sprintf("%s: %s", a.Drain.Name, a.What)
	if len(a.Drain.Uses) > 0 {
		s += " (" + strings.Join(a.Drain.Uses, "; ") + ")"
	}
	return s
}
