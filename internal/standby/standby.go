// Package standby decides which of two forsd leads, each of which runs next to a subnet
// manager of the same fabric. It is a pure state machine: an event goes in, a batch of
// actions comes out, and the caller supplies the time.
//
// A daemon leads only while its manager is the master, and begins to lead when the peer
// has confirmed that it does not lead. If the peer cannot be asked, or leads as well
// because both managers are masters, the daemon leads in doubt after
// Settings.TakeoverWait, under numbers that are taken from the two clocks and exceed all
// numbers given before; but not if its manager sees the more minor part of the fabric. The
// invariants are in docs/architecture.md.
package standby

import (
	"fmt"
	"time"
)

// Settings describe the peer.
type Settings struct {
	// Peer is the peer's address, used in messages; "" if none.
	Peer string
	// TakeoverWait limits how long a takeover waits for the peer before this daemon leads
	// in doubt (peer.timeout in the configuration).
	TakeoverWait time.Duration
	// Salt is a random number that makes claims of the same millisecond differ.
	Salt uint32
}

const (
	pollWait    = 10 * time.Second       // how long the peer may wait for news before it answers
	pollGrace   = 5 * time.Second        // how much later the answer may arrive
	askAgain    = 250 * time.Millisecond // pause after a failure
	handingOver = 10 * time.Millisecond  // pause between two questions of a takeover
)

// Role is the present role of the daemon.
type Role uint8

// The roles.
const (
	Follows   Role = iota // it copies the peer's state
	TakesOver             // its manager is the master, and it waits for the peer's last word
	Leads                 // it publishes plans and writes tables
)

// String returns the role's name.
func (r Role) String() string { return [...]string{"follows", "takes over", "leads"}[r] }

// Machine is the state machine. See New.
type Machine struct {
	set     Settings
	role    Role
	manager Manager // the local one, when last asked

	claim    uint64    // of the present or last takeover; the lower of two claims goes first
	heard    uint64    // highest claim known
	given    uint64    // highest number that the peer has named
	passed   uint64    // of the peer's last word, Passed
	ahead    int64     // lower bound in milliseconds of how far the peer's clock is ahead, 0 if it is behind
	deadline time.Time // of the takeover
	late     string    // why it leads in doubt at the deadline

	serial   uint64    // of the last question
	open     bool      // the last question is not answered
	due      time.Time // when the open question is given up, or the next one is asked
	have     string    // tag of the peer's last word
	adopting bool      // an Adopt is not answered
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

// Role returns the present role.
func (m *Machine) Role() Role { return m.role }

// Master reports whether the local manager is the master.
func (m *Machine) Master() bool { return m.manager.Master }

// Word is what the machine knows of this daemon's word.
func (m *Machine) Word() Word {
	return Word{Leads: m.role == Leads, Missing: m.manager.Missing, Claim: m.Claim()}
}

// Claim returns the claim of the current takeover, 0 if there is none.
func (m *Machine) Claim() uint64 {
	if m.role != TakesOver {
		return 0
	}
	return m.claim
}

// Wake returns when the machine needs a Tick; zero means never.
func (m *Machine) Wake() time.Time { return m.due }

// Step handles an event and returns the actions to carry out, in order. All events but
// Manager must come between two actions of the controller, while plans, numbers and tables
// are at rest.
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
		m.managed(now, e)
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

// managed records whether the manager is the master. From the moment it is not, this daemon
// must not change the switches.
func (m *Machine) managed(now time.Time, e Manager) {
	was := m.manager
	m.manager = e
	switch {
	case e.Master && m.role == Follows && (!was.Master || e.Missing < was.Missing):
		m.takeOver(now)
	case !e.Master && m.role != Follows:
		m.follow(now, "")
	}
}

// follow stops leading or taking over.
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

// takeOver waits for the peer's last word, at most TakeoverWait. Two daemons that take over
// at once must not adopt each other's state and both continue from the same numbers, so
// each has a claim, and the lower claim goes first. A claim exceeds every claim heard of,
// so the daemon that let the other one go first has the higher claim later. Claims count
// from the clock, so that a restarted daemon, which has forgotten the claims it heard, does
// not claim less than before.
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

// lead begins to lead. In doubt the next number is the time in milliseconds by the faster
// of the two clocks: no number was ahead of that clock, so none given before is higher. If
// that clock was set back, known numbers may be higher; then a block of numbers is left for
// those that the peer has given since. See Over.
func (m *Machine) lead(now time.Time, doubt string) {
	a := Lead{Doubt: doubt, Above: m.passed}
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

// askAnew cancels the open question and asks as the present role requires.
func (m *Machine) askAnew(now time.Time) {
	m.have, m.adopting = "", false
	if m.set.Peer != "" {
		m.ask(now)
	}
}

// ask asks the peer: a follower for its state, a leader whether it leads, and a daemon that
// takes over for its last word.
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

// pause schedules the next question.
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

// answered handles the peer's answer.
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
	m.given, m.passed = max(m.given, e.Word.Last, e.Word.Passed), e.Word.Passed
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

// toldFollower copies a leader's state. If the manager is the master, this daemon has
// yielded, and takes over again when the peer no longer leads, or in a more minor part.
func (m *Machine) toldFollower(now time.Time, w Word, own Numbers) {
	switch {
	case m.manager.Master && (!w.Leads || w.Missing > m.manager.Missing):
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

// older explains why the peer's plan must not replace this daemon's: clients must see only
// increasing numbers. The peer leads in doubt and is about to publish.
func older(w Word, own Numbers) string {
	return fmt.Sprintf("it has epoch %d in force, and this forsd epoch %d", w.Epoch, own.Epoch)
}

// toldSuccessor takes over if the peer no longer leads, with the peer's state unless this
// daemon's is later. In the more minor part it does not take over from one that leads in the other.
func (m *Machine) toldSuccessor(now time.Time, w Word, own Numbers) {
	switch {
	case w.Leads && m.manager.Missing > w.Missing:
		m.follow(now, "the other forsd leads, and its subnet manager sees more of the fabric")
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

// toldLeader yields if the peer has given higher numbers: the peer took over while this
// daemon's manager hung or was unreachable, and this daemon's plans are older.
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

// missed handles a missing answer. A daemon that takes over leads in doubt. One that has
// yielded takes over if its manager is still the master.
func (m *Machine) missed(now time.Time, why string) {
	m.unusable(now, why)
	switch {
	case m.role == TakesOver:
		m.lead(now, why)
	case m.role == Follows && m.manager.Master:
		m.takeOver(now)
	}
}

// unusable warns about an unusable answer and asks for the full state later.
func (m *Machine) unusable(now time.Time, why string) {
	m.have = ""
	m.warn(PeerLost, fmt.Sprintf("the forsd at %s cannot be followed: %s", m.set.Peer, why))
	m.pause(now, askAgain)
}
