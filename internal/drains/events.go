package drains

import (
	"fmt"
	"strings"
)

// Event is what happened.
type Event interface{ event() }

// Tick says that time has passed; see Machine.Wake.
type Tick struct{}

// Load says which drains there are, in place of all that were known: they were stored, or
// come from the forsd that has led.
type Load struct{ Drains []Drain }

// Order takes a part out, at its time.
type Order struct{ Drain }

// End gives a part back.
type End struct{ Part }

// Settled says that plans and tables in force fit the fabric and what is withheld.
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

// Follow says that other parts are out from now on: plans and tables are to follow. Why is
// what was decided, in words. The drains are to be kept.
type Follow struct{ Why string }

// Keep says that the drains are to be stored.
type Keep struct{}

// Look asks what leads over the parts that are out; Looked answers it, or another Look
// comes.
type Look struct{}

// Tell says what happened to a drain.
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
