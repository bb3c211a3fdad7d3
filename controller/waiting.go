package controller

import "time"

// State is the event that the controller waits for.
type State uint8

// The states in the order of a change.
const (
	Idle       State = iota // for nothing
	Suspect                 // a mass disappearance waits for confirmation
	Before                  // a plan without the lost lanes is being made
	Publishing              // that plan is being published
	Writing                 // the tables are being written
	Signalling              // the manager is being signalled
	Sweeping                // the manager's sweep is awaited
	Reading                 // the tables are being read back
	After                   // a plan for the confirmed tables is being made
	Finishing               // that plan is being published
	Backoff                 // a retry after a failure
)

var stateNames = [...]string{"idle", "suspect", "planning-before", "publishing-before", "writing-tables", "signalling",
	"awaiting-sweep", "reading-back", "planning-after", "publishing-after", "backing-off"}

// String returns the state's name in the API.
func (s State) String() string { return stateNames[s] }

// waiting is the state of the controller, with its deadline.
type waiting struct {
	state    State
	deadline time.Time // of Suspect, Sweeping and Backoff, or zero
}

// enter changes the state, without a deadline.
func (w *waiting) enter(s State) { w.state, w.deadline = s, time.Time{} }

// wait changes the state until something happens, or until the deadline.
func (w *waiting) wait(s State, deadline time.Time) { w.state, w.deadline = s, deadline }
