package standby

import (
	"fmt"
	"time"
)

// Event is what happened.
type Event interface{ event() }

// Start is the first event. A daemon with another one beside it follows until its
// manager says that it is the master; one alone leads until it says that it is not.
type Start struct{}

// Tick says that time has passed; see Machine.Wake.
type Tick struct{}

// Manager says whether the manager next door is the subnet's master. One that cannot
// be asked is not.
type Manager struct{ Master bool }

// Asked says that the other one has asked, with a claim if it is taking over. What
// it is answered is said after this event.
type Asked struct{ Claim uint64 }

// Answered answers Ask: what the other one says, or why nothing can be had.
type Answered struct {
	Serial uint64 // of the Ask
	Word   Word
	Own    Numbers // of this daemon, now
	Err    string
}

// Adopted answers Adopt: the other one's state is this one's, or Err says why not.
type Adopted struct{ Err string }

// Word is what a daemon says of itself between two actions, when nothing of it is
// under way.
type Word struct {
	Tag   string // another one whenever something else here is
	Leads bool
	Claim uint64 // of the takeover under way, 0 for none
	Numbers
	Whole bool  // its state came with it
	Clock int64 // of its host when it answered, in milliseconds since 1970; 0 if it is not known
}

// Numbers are those of a daemon's plans.
type Numbers struct {
	Last  uint64 // the highest number known to be given
	Epoch uint64 // of the plan in force, 0 for none; in a Word only if that is whole
}

func (Start) event()    {}
func (Tick) event()     {}
func (Manager) event()  {}
func (Asked) event()    {}
func (Answered) event() {}
func (Adopted) event()  {}

// Action is what is to be done.
type Action interface{ String() string }

// Ask puts a question to the other daemon, and gives up the one before. It is
// answered by Answered.
type Ask struct {
	Serial uint64
	Have   string        // the tag of what this daemon has: only what differs is wanted
	Brief  bool          // the state is not wanted
	Wait   time.Duration // for something to differ
	Claim  uint64        // of the takeover that the question is for, 0 for none
}

// Adopt makes the state that came with the answer this daemon's. It is answered by
// Adopted.
type Adopt struct{}

// Lead begins to lead. With a doubt the other one may have published since: all
// numbers up to Above count as given, and the plan in force is published again. It has
// no answer.
type Lead struct {
	Doubt string
	Above uint64
	Slot  uint64 // of this daemon in a block of numbers
}

// Blocks of numbers have a slot for each daemon, so that two which do not hear each other
// give different numbers.
const (
	blockBits = 24
	slotBits  = 12
)

// Over is the highest number that may have been given, if this daemon knows of numbers up to
// last. If these are above the clock's, a block is left for those that it does not know of.
func (a Lead) Over(last uint64) uint64 {
	if a.Above <= last {
		return (last>>blockBits+2)<<blockBits + a.Slot<<slotBits
	}
	return a.Above
}

// Follow ceases to lead, or to take over. It has no answer.
type Follow struct{ Why string }

// Warn raises or renews a health warning. It has no answer.
type Warn struct{ Code, Text string }

// Clear takes a health warning back. It has no answer.
type Clear struct{ Code string }

// The codes of the warnings.
const (
	ManagerStandby = "manager-standby"
	PeerLost       = "peer-unreachable"
	PeerLeads      = "peer-leads-too"
)

// String prints the action as the transcripts show it.
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

// String prints the action as the transcripts show it.
func (Adopt) String() string { return "adopt" }

// String prints the action as the transcripts show it.
func (a Lead) String() string {
	if a.Doubt == "" {
		return "lead"
	}
	return fmt.Sprintf("lead above %d in doubt: %s", a.Above, a.Doubt)
}

// String prints the action as the transcripts show it.
func (a Follow) String() string {
	if a.Why == "" {
		return "follow"
	}
	return "follow: " + a.Why
}

// String prints the action as the transcripts show it.
func (a Warn) String() string { return "warn " + a.Code + ": " + a.Text }

// String prints the action as the transcripts show it.
func (a Clear) String() string { return "clear " + a.Code }
