// Package verify walks plans and forwarding tables port by port through a fabric, and
// reports the first fault. It is independent of the packages that make plans and tables and
// shares no code with them.
package verify

import "fmt"

// The codes of violations. They are stable: scripts branch on them.
const (
	BadRows          = "bad-rows"          // the rows or the list of unreachable pairs are malformed
	SendsTwice       = "sends-twice"       // a server sends to two others in one phase
	ReceivesTwice    = "receives-twice"    // a server receives from two others in one phase
	PairTwice        = "pair-twice"        // an ordered pair occurs twice
	PairForeign      = "pair-foreign"      // a transfer between servers of different exchanges
	PairMissing      = "pair-missing"      // an ordered pair occurs nowhere
	NotUnreachable   = "not-unreachable"   // a pair is called unreachable and is not
	WrongDLID        = "wrong-dlid"        // the DLID is none of the destination's, or not the base LID of a local transfer
	NotLocal         = "not-local"         // lane −1 between two leaves, or a lane within one
	LaneDown         = "lane-down"         // the lane is not up at full rate at both leaves
	WrongLane        = "wrong-lane"        // the tables lead over other cables than the lane's
	LinkTwice        = "link-twice"        // two transfers of one phase on one directed link
	WrongDestination = "wrong-destination" // the tables lead to another port than the destination
	NoEntry          = "no-entry"          // a switch on the way has no entry for the DLID
	TableMissing     = "table-missing"     // a switch of the fabric has no table
	LIDMissing       = "lid-missing"       // a switch has no entry for a LID that it can reach
	DownPort         = "down-port"         // an entry points at a port that is down or empty
	NoSuchPort       = "no-such-port"      // an entry points at a port that the switch does not have
	Misdelivered     = "misdelivered"      // a table delivers a LID to a port that does not own it
	Loop             = "loop"              // a LID goes round in a circle
	BlackHole        = "black-hole"        // a LID is sent to a switch that has no entry for it
	Deadlock         = "deadlock"          // channels wait for one another in a circle
)

// NoPhase is the phase of a violation that concerns none.
const NoPhase = -1

// Violation is the first thing found wrong with a plan or with tables.
type Violation struct {
	Code  string // one of the constants of this package
	Phase int    // NoPhase where no single phase is concerned
	Text  string // servers, switches, ports and LIDs in words
}

// Error prints the violation with its phase and code.
func (v *Violation) Error() string {
	if v.Phase == NoPhase {
		return fmt.Sprintf("%s (%s)", v.Text, v.Code)
	}
	return fmt.Sprintf("phase %d: %s (%s)", v.Phase, v.Text, v.Code)
}

func violation(code string, phase int, format string, args ...any) *Violation {
	return &Violation{code, phase, fmt.Sprintf(format, args...)}
}
