package exclusions

import (
	"fmt"
	"strings"
)

// Event is an input of the machine.
type Event interface{ event() }

// Tick reports that time has passed; see Drains.Wake.
type Tick struct{}

// Load replaces all drains by stored ones, or by those of the leader. Unless Led is set, parts
// may have come into use since, and none is safe to pull until it is looked at.
type Load struct {
	Drains []Drain
	Led    bool // this forsd follows the leader
}

// Order drains a part at its time.
type Order struct{ Drain }

// End gives a part back.
type End struct{ Part }

// Settled reports that plans and tables in force fit the fabric and the withheld parts.
type Settled struct{}

// Looked answers Look with the remaining uses of each examined part.
type Looked struct{ Uses map[Part][]string }

func (Tick) event()    {}
func (Load) event()    {}
func (Order) event()   {}
func (End) event()     {}
func (Settled) event() {}
func (Looked) event()  {}

// Action is an output of the machine; its String is its form in transcripts.
type Action interface{ String() string }

// Follow requests that plans and tables follow a changed set of drained parts, and that the
// drains are stored. Why describes the decision.
type Follow struct{ Why string }

// Keep requests that the drains are stored.
type Keep struct{}

// Look requests the uses of the drained parts. Looked answers it, unless another Look follows.
type Look struct{}

// Tell reports a change of a drain.
type Tell struct {
	Drain Drain
	What  string
}

func (a Follow) String() string { return "follow: " + a.Why }
func (Keep) String() string     { return "keep" }
func (Look) String() string     { return "look" }

func (a Tell) String() string {
	s := fmt.Sprintf("%s: %s", a.Drain.Name, a.What)
	if len(a.Drain.Uses) > 0 {
		s += " (" + strings.Join(a.Drain.Uses, "; ") + ")"
	}
	return s
}
