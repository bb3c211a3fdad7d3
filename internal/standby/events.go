package standby

import (
	"fmt"
	"time"
)

// Event is an input of the machine.
type Event interface{ event() }

// Start is the first event. A daemon with a peer follows until its manager is the master; a
// daemon without a peer leads until its manager is not the master.
type Start struct{}

// Tick reports that time has passed; see Machine.Wake.
type Tick struct{}

// Manager reports whether the local subnet manager is the master, and how many of the baseline's
// hosts it does not see, if these are most: it is that of a minor part of the fabric, and of the
// more so the more are missing. A manager that does not answer is not the master.
type Manager struct {
	Master  bool
	Missing int
}

// Asked reports a question of the peer, with a claim if the peer is taking over. The
// answer is made after this event.
type Asked struct{ Claim uint64 }

// Answered is the response to Ask: the peer's word, or an error.
type Answered struct {
	Serial uint64 // of the Ask
	Word   Word
	Own    Numbers // this daemon's current numbers
	Err    string
}

// Adopted is the response to Adopt. If Err is "", the peer's state is now this daemon's.
type Adopted struct{ Err string }

// Word is a daemon's state between two actions of its controller.
type Word struct {
	Tag     string // differs whenever anything else here differs
	Leads   bool
	Missing int    // as in Manager
	Claim   uint64 // of the current takeover, 0 if there is none
	Numbers
	Whole bool  // the state was sent with it
	Clock int64 // its host's clock when it answered, in milliseconds since 1970; 0 if unknown
}

// Numbers are the numbers of a daemon's plans.
type Numbers struct {
	Last   uint64 // the highest number known to be given
	Passed uint64 // the highest that a lost plan may have, 0 if none: plans up to it may be outdated
	Epoch  uint64 // of the plan in force, 0 if there is none; in a Word only if Whole
}

func (Start) event()    {}
func (Tick) event()     {}
func (Manager) event()  {}
func (Asked) event()    {}
func (Answered) event() {}
func (Adopted) event()  {}

// Action is an output of the machine; its String is its form in transcripts.
type Action interface{ String() string }

// Ask asks the peer and cancels the previous question. The response is Answered.
type Ask struct {
	Serial uint64
	Have   string        // tag of the state that this daemon has; only a different one is sent
	Brief  bool          // do not send the state
	Wait   time.Duration // how long the peer may wait for a change
	Claim  uint64        // of the takeover that asks, 0 if there is none
}

// Adopt replaces this daemon's state with the one sent in the answer. The response is
// Adopted.
type Adopt struct{}

// Lead begins to lead. Numbers up to Above may be those of plans that the peer has lost or, if Doubt
// is not "", has published since: plans in force up to Above are published again. It has no response.
type Lead struct {
	Doubt string
	Above uint64
	Slot  uint64 // of this daemon in a block of numbers
}

// Blocks of numbers have a slot for each daemon, so that two daemons without contact give
// different numbers.
const (
	blockBits = 24
	slotBits  = 12
)

// Over returns the highest number that may have been given if this daemon knows of numbers
// up to last. If in doubt last is greater than the clock's number, a block is left for numbers that
// this daemon does not know of.
func (a Lead) Over(last uint64) uint64 {
	if a.Doubt != "" && a.Above <= last {
		return (last>>blockBits+2)<<blockBits + a.Slot<<slotBits
	}
	return a.Above
}

// Follow stops leading or taking over. It has no response.
type Follow struct{ Why string }

// Warn raises or updates a health warning. It has no response.
type Warn struct{ Code, Text string }

// Clear clears a health warning. It has no response.
type Clear struct{ Code string }

// Warning codes.
const (
	ManagerStandby = "manager-standby"
	PeerLost       = "peer-unreachable"
	PeerLeads      = "peer-leads-too"
)

func (a Ask) String() string {
	s := fmt.Sprintf("ask %d", a.Serial)
	if a.Brief {
		s += " in brief"
	}
	if a.Have != "" {
		s += " for what is not " + a.Have
	}
	if a.Wait > 0 {
		s += fmt.Sprintf(" for %v", a.Wait)
	}
	if a.Claim != 0 {
		s += fmt.Sprintf(" with claim %d", a.Claim)
	}
	return s
}

func (Adopt) String() string { return "adopt" }

func (a Lead) String() string {
	switch {
	case a.Doubt != "":
		return fmt.Sprintf("lead above %d in doubt: %s", a.Above, a.Doubt)
	case a.Above != 0:
		return fmt.Sprintf("lead above %d", a.Above)
	}
	return "lead"
}

func (a Follow) String() string {
	if a.Why == "" {
		return "follow"
	}
	return "follow: " + a.Why
}

func (a Warn) String() string  { return "warn " + a.Code + ": " + a.Text }
func (a Clear) String() string { return "clear " + a.Code }
