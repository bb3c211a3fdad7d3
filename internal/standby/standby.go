// Package standby decides which of two forsd leads that run beside two subnet
// managers of one fabric. It is a pure state machine like the controller: an event
// goes in, a batch of actions comes out, and time is what the caller says it is.
//
// A daemon leads only while its manager is the subnet's master, and begins when the
// other one has said that it leads no more. Where the other one cannot be asked, or
// leads as well because both managers are masters, it begins in doubt after
// Settings.TakeoverWait: under numbers by the clocks of both, which are above all that were
// given before. docs/architecture.md has the invariants.
package standby

import (
	"fmt"
	"time"
)

// Settings tell the machine of the other daemon.
type Settings struct {
	// Peer is the other one's address, for texts; "" where there is none.
	Peer string
	// TakeoverWait is how long a takeover waits for the other one's last word before
	// this daemon leads in doubt: peer.timeout of the configuration.
	TakeoverWait time.Duration
	// Salt makes claims of the same millisecond differ: a random number.
	Salt uint32
}

const (
	pollWait    = 10 * time.Second       // that the other one may keep a question until it has news
	pollGrace   = 5 * time.Second        // that an answer may take beyond that
	askAgain    = 250 * time.Millisecond // after a failure
	handingOver = 10 * time.Millisecond  // between two questions of a takeover
)

// Role is what the daemon does at present.
type Role uint8

// The roles.
const (
	Follows   Role = iota // it keeps the other one's state
	TakesOver             // its manager is the master, and it waits for the other one's last word
	Leads                 // it publishes plans and writes tables
)

// String is the role's name.
func (r Role) String() string { return [...]string{"follows", "takes over", "leads"}[r] }

// Machine is the state machine. See New.
type Machine struct {
	set    Settings
	role   Role
	master bool // the manager is the master, as it said last

	claim    uint64    // of this takeover; the lower of two goes first
	heard    uint64    // the highest claim known
	given    uint64    // the highest number that the other one has told of
	ahead    int64     // milliseconds that its clock is ahead of this one at least, 0 if it is behind
	deadline time.Time // of this takeover
	late     string    // why it begins in doubt at its deadline

	serial   uint64    // of the last question
	open     bool      // its answer is awaited
	due      time.Time // when it is given up; where none is open, when the next one is asked
	have     string    // the tag of what the other one said last
	adopting bool      // its state is being taken over
	raised   map[string]bool
	out      []Action
}

// New returns a machine that waits for Start.
func New(s Settings) *Machine {
	m := &Machine{set: s, raised: map[string]bool{}}
	if s.Peer == "" {
		m.role = Leads
	}
	return m
}

// Role tells what the daemon does.
func (m *Machine) Role() Role { return m.role }

// Master reports whether the manager is the subnet's master.
func (m *Machine) Master() bool { return m.master }

// Claim is that of the takeover under way, 0 for none.
func (m *Machine) Claim() uint64 {
	if m.role != TakesOver {
		return 0
	}
	return m.claim
}

// Wake is when the machine wants a Tick; zero for never.
func (m *Machine) Wake() time.Time { return m.due }

// Step takes an event and returns what is to be done, in order. Every event but
// Manager comes between two actions of the controller: plans, numbers and tables are
// at rest then.
func (m *Machine) Step(now time.Time, e Event) []Action {
	m.out = nil
	switch e := e.(type) {
	case Start:
		if m.role == Follows {
			m.follow(now, "")
		}
	case Tick:
		m.tick(now)
	case Manager:
		m.manager(now, e.Master)
	case Asked:
		m.heard = max(m.heard, e.Claim)
	case Answered:
		m.answered(now, e)
	case Adopted:
		m.adopted(now, e.Err)
	}
	return m.out
}

func (m *Machine) do(a Action) { m.out = append(m.out, a) }

func (m *Machine) warn(code, text string) {
	m.raised[code] = true
	m.do(Warn{code, text})
}

func (m *Machine) clear(code string) {
	if m.raised[code] {
		delete(m.raised, code)
		m.do(Clear{code})
	}
}

// manager takes note of whether the manager is the master. What the switches hold is
// another's business as soon as it is not.
func (m *Machine) manager(now time.Time, master bool) {
	m.master = master
	switch {
	case master && m.role == Follows:
		m.takeOver(now)
	case !master && m.role != Follows:
		m.follow(now, "")
	}
}

// follow ceases to lead or to take over.
func (m *Machine) follow(now time.Time, why string) {
	m.role = Follows
	m.do(Follow{why})
	text := "another subnet manager is the master; forsd plans, and publishes and writes nothing, until this one is"
	if m.set.Peer != "" {
		text += "; it follows the forsd at " + m.set.Peer
	}
	m.warn(ManagerStandby, text)
	m.clear(PeerLeads)
	m.askAnew(now)
}

// takeOver waits for the other one's last word, and no longer than TakeoverWait. Two
// that take over at once must not take each other's word and both go on from the
// same numbers: each has a claim, and the lower one goes first. A claim is above
// all that its daemon has heard of, so the one that lets another one go first has the
// higher claim later. It counts from the clock, so that a daemon that has been started
// anew, and has forgotten what it heard, claims no less.
func (m *Machine) takeOver(now time.Time) {
	if m.set.Peer == "" {
		m.lead(now, "")
		return
	}
	const saltBits = 22
	m.role = TakesOver
	m.claim = max(m.heard+1, uint64(now.UnixMilli())<<saltBits|uint64(m.set.Salt)&(1<<saltBits-1))
	m.deadline, m.late = now.Add(m.set.TakeoverWait), ""
	m.askAnew(now)
}

// lead begins to lead. In doubt the next number is the time in milliseconds by the clock
// that is ahead of the two: no number given before is higher, as none was ahead of that
// clock. If that clock was set back, known numbers may be higher: then numbers
// are left out for those that the other one has given since: see Over.
func (m *Machine) lead(now time.Time, doubt string) {
	a := Lead{Doubt: doubt}
	if doubt != "" {
		a.Slot = uint64(m.set.Salt % (1 << (blockBits - slotBits)))
		a.Above = uint64(now.UnixMilli()+m.ahead) - 1
		a.Above = a.Over(m.given)
	}
	m.role = Leads
	m.do(a)
	m.clear(ManagerStandby)
	m.askAnew(now)
}

// askAnew asks as the present role does, and gives up what was asked before.
func (m *Machine) askAnew(now time.Time) {
	m.have, m.adopting = "", false
	if m.set.Peer != "" {
		m.ask(now)
	}
}

// ask asks the other one: a follower for its state, a leader whether it leads, and
// a daemon that takes over for its last word.
func (m *Machine) ask(now time.Time) {
	m.serial++
	m.open = true
	if m.role == TakesOver {
		m.due = m.deadline
		m.do(Ask{Serial: m.serial, Claim: m.claim})
		return
	}
	m.due = now.Add(pollWait + pollGrace)
	m.do(Ask{Serial: m.serial, Have: m.have, Brief: m.role == Leads, Wait: pollWait})
}

// pause asks again later.
func (m *Machine) pause(now time.Time, d time.Duration) {
	m.open, m.due = false, now.Add(d)
	if m.role == TakesOver && m.due.After(m.deadline) {
		m.due = m.deadline
	}
}

func (m *Machine) tick(now time.Time) {
	switch {
	case m.due.IsZero() || now.Before(m.due):
	case m.role == TakesOver && !now.Before(m.deadline):
		m.lead(now, fmt.Sprintf("%sit took longer than %v", m.late, m.set.TakeoverWait))
	case m.open:
		m.missed(now, fmt.Sprintf("it has not answered within %v", pollWait+pollGrace))
	default:
		m.ask(now)
	}
}

// answered takes in what the other one says.
func (m *Machine) answered(now time.Time, e Answered) {
	if !m.open || e.Serial != m.serial {
		return
	}
	m.open = false
	if e.Err != "" {
		m.missed(now, e.Err)
		return
	}
	m.heard = max(m.heard, e.Word.Claim)
	m.given = max(m.given, e.Word.Last)
	if e.Word.Clock != 0 {
		m.ahead = max(m.ahead, e.Word.Clock-now.UnixMilli())
	}
	m.have = e.Word.Tag
	switch m.role {
	case Follows:
		m.toldFollower(now, e.Word, e.Own)
	case TakesOver:
		m.toldSuccessor(now, e.Word, e.Own)
	case Leads:
		m.toldLeader(now, e.Word, e.Own)
	}
}

// toldFollower keeps in step with a leader. Where the manager is the master, this
// daemon has yielded, and leads again when the other one has ceased to.
func (m *Machine) toldFollower(now time.Time, w Word, own Numbers) {
	switch {
	case !w.Leads && m.master:
		m.clear(PeerLost)
		m.takeOver(now)
	case !w.Leads || !w.Whole:
		m.clear(PeerLost)
		m.ask(now)
	case w.Last < own.Last:
		m.unusable(now, fmt.Sprintf("it has given numbers up to %d, and this forsd up to %d", w.Last, own.Last))
	case w.Epoch < own.Epoch:
		m.unusable(now, older(w, own))
	default:
		m.adopt()
	}
}

// older says that the other one's plan must not take the place of this one's: numbers
// only grow for those who ask here. It leads in doubt, and is about to publish.
func older(w Word, own Numbers) string {
	return fmt.Sprintf("it has epoch %d in force, and this forsd epoch %d", w.Epoch, own.Epoch)
}

// toldSuccessor takes over where the other one leads no more, with its state unless
// this daemon's is the later one.
func (m *Machine) toldSuccessor(now time.Time, w Word, own Numbers) {
	switch {
	case w.Leads:
		m.late = "it leads as well: "
		m.pause(now, handingOver)
	case w.Claim != 0 && w.Claim <= m.claim:
		m.late = "it takes over as well: "
		m.pause(now, handingOver)
	case w.Last < own.Last:
		m.lead(now, "")
	case w.Epoch < own.Epoch:
		m.lead(now, older(w, own))
	default:
		m.adopt()
	}
}

// toldLeader yields where the other one has given higher numbers: it took over while
// this one's manager hung, or could not be reached, and this one's plans are the
// older ones.
func (m *Machine) toldLeader(now time.Time, w Word, own Numbers) {
	m.clear(PeerLost)
	if w.Last > own.Last {
		m.follow(now, fmt.Sprintf("the other forsd has led meanwhile: it has given numbers up to %d, and this one up to %d", w.Last, own.Last))
		return
	}
	if w.Leads {
		m.warn(PeerLeads, fmt.Sprintf("the forsd at %s says that the manager beside it is the master, too", m.set.Peer))
	} else {
		m.clear(PeerLeads)
	}
	m.ask(now)
}

func (m *Machine) adopt() {
	m.adopting = true
	m.due = time.Time{}
	m.do(Adopt{})
}

func (m *Machine) adopted(now time.Time, err string) {
	if !m.adopting {
		return
	}
	m.adopting = false
	switch {
	case m.role == TakesOver:
		m.lead(now, err)
	case err != "":
		m.unusable(now, err)
	default:
		m.clear(PeerLost)
		m.ask(now)
	}
}

// missed goes on without an answer. A daemon that takes over leads in doubt. One that
// has yielded, and whose manager is the master still, takes over.
func (m *Machine) missed(now time.Time, why string) {
	m.unusable(now, why)
	switch {
	case m.role == TakesOver:
		m.lead(now, why)
	case m.role == Follows && m.master:
		m.takeOver(now)
	}
}

// unusable warns of an answer that is none, and asks for all again later.
func (m *Machine) unusable(now time.Time, why string) {
	m.have = ""
	m.warn(PeerLost, fmt.Sprintf("the forsd at %s cannot be followed: %s", m.set.Peer, why))
	m.pause(now, askAgain)
}
