package standby

import (
	"flag"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/testbed/histories"
)

// grid is the time step of the world. The clock of one host is ahead, and a clock reading
// takes half a step to arrive. Takeovers in doubt are therefore further apart than the
// numbers of the plans that a history publishes. If they were closer together, they could
// give a number twice.
const (
	grid    = 100 * time.Millisecond
	mostPut = 45 // plans in a history
)

// world is two daemons, their two managers, and a network between the daemons that loses,
// delays and cuts messages. Mastership moves between the managers. It checks each action.
type world struct {
	t       *rapid.T
	now     time.Time
	dice    *rand.Rand
	nodes   [2]*node
	flights []*flight
	made    map[uint64]int // the plan with each number given
	plans   int

	ahead time.Duration // of the fast clock over the other one
	fast  int           // the daemon with the fast clock
	top   uint64        // highest number given

	untimed bool          // a daemon led in doubt without knowing which clock is ahead
	slow    time.Duration // longest delay of a message
	lossy   bool
	cut     bool
	faults  bool // a fault has occurred

	led, doubts, both int // takeovers: all, in doubt, while the other daemon led
}

// node is a daemon, as far as the machine knows it, and its host.
type node struct {
	w        *world
	id       int
	m        *Machine
	up       bool
	manager  Manager
	own      Numbers   // in memory
	plan     int       // in force
	stored   Numbers   // survives a crash
	kept     int       // the plan that survives a crash
	full     bool      // its disk takes nothing but the numbers given
	noted    uint64    // up to which numbers of plans that are not stored were given
	lost     uint64    // noted at the start
	shown    uint64    // number of the plan that its clients got last
	told     uint64    // highest number that it has heard of from the other daemon
	putting  uint64    // the number of the plan being published; 0 if none
	put      time.Time // when publishing ends
	anew     bool      // the plan in force must be published again
	doubt    bool      // it last led in doubt
	timed    bool      // it knows which clock is ahead
	queue    []Event   // events that wait until no plan is being published
	held     *flight   // the other daemon's question, held until there is news
	answer   *flight   // being handled
	restarts int
}

// flight is a question or an answer in transit.
type flight struct {
	to       *node
	sent, at time.Time // at is when it arrives
	question *Ask
	restart  int // of the asker when it asked
	answer   Answered
	plan     int
	until    time.Time // when the question must be answered
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: time.UnixMilli(1_800_000_000_000), made: map[uint64]int{},
		dice: rand.New(rand.NewSource(rapid.Int64Range(0, 1<<20).Draw(t, "dice")))}
	w.ahead = grid/2 + rapid.SampledFrom([]time.Duration{0, 10 * grid, time.Minute, 365 * 24 * time.Hour}).Draw(t, "ahead")
	w.fast = rapid.IntRange(0, 1).Draw(t, "fast")
	for i := range w.nodes {
		w.nodes[i] = &node{w: w, id: i}
	}
	for _, n := range w.nodes {
		n.start()
	}
	return w
}

func (n *node) other() *node { return n.w.nodes[1-n.id] }

// clock returns the time by the host's clock.
func (n *node) clock() time.Time {
	if n.id == n.w.fast {
		return n.w.now.Add(n.w.ahead)
	}
	return n.w.now
}

// start starts the daemon from its stored state. The plugin reports the manager's state.
func (n *node) start() {
	n.up, n.own, n.plan, n.timed = true, n.stored, n.kept, n.id == n.w.fast
	n.told, n.lost, n.own.Passed = n.stored.Last, n.noted, n.noted
	if n.own.Epoch <= n.noted {
		n.own.Epoch, n.plan = 0, 0
	}
	n.restarts++
	n.m = New(Settings{Peer: "other", TakeoverWait: time.Second, Salt: uint32(n.id)})
	n.step(Start{})
	if n.manager.Master {
		n.step(n.manager)
	}
}

// crash ends the daemon.
func (n *node) crash() {
	n.up, n.putting, n.queue, n.held, n.anew = false, 0, nil, nil, false
	n.w.faults = true
}

// step passes an event to the machine and carries out the actions.
func (n *node) step(e Event) {
	was := n.m.Role()
	for _, a := range n.m.Step(n.clock(), e) {
		switch a := a.(type) {
		case Ask:
			n.w.send(&flight{to: n.other(), question: &a, restart: n.restarts})
		case Lead:
			n.lead(a, was)
		case Adopt:
			n.adopt()
		}
	}
	if n.m.Role() == Leads && !n.manager.Master {
		n.w.t.Fatalf("%d leads, and its manager is not the master", n.id)
	}
	if n.m.Wake().IsZero() {
		n.w.t.Fatalf("%d waits for nothing", n.id)
	}
}

// rest passes an event to the machine once no plan is being published.
func (n *node) rest(e Event) {
	n.queue = append(n.queue, e)
	n.work()
}

func (n *node) work() {
	for len(n.queue) > 0 && n.up && n.putting == 0 {
		e := n.queue[0]
		n.queue = n.queue[1:]
		n.take(e)
		n.reply()
	}
}

// take handles an event while no plan is being published.
func (n *node) take(e Event) {
	f, answered := e.(*flight)
	switch {
	case !answered:
		n.step(e)
	case f.question != nil:
		n.step(Asked{Claim: f.question.Claim})
		n.held = f
	default:
		f.answer.Own = n.own
		heard := n.m.open && f.answer.Serial == n.m.serial // the question has not been given up
		if heard {
			n.told = max(n.told, f.answer.Word.Last)
			n.timed = n.timed || f.answer.Err == "" && n.w.now.Sub(f.sent) == 0
		}
		behind := heard && n.m.Role() == Leads && f.answer.Word.Last > n.own.Last
		n.answer = f
		n.step(f.answer)
		if behind && n.m.Role() == Leads {
			n.w.t.Fatalf("%d leads with numbers up to %d, and has heard of %d", n.id, n.own.Last, f.answer.Word.Last)
		}
	}
}

func (*flight) event() {}

// lead checks that this daemon may lead. In doubt, it publishes its plan again.
func (n *node) lead(a Lead, was Role) {
	o := n.other()
	if was != TakesOver {
		n.w.t.Fatalf("%d leads without taking over", n.id)
	}
	if n.doubt = a.Doubt != ""; !n.doubt && o.up && !o.doubt && (o.m.Role() == Leads || o.putting != 0) {
		n.w.t.Fatalf("%d leads without a doubt, and so does the other one", n.id)
	}
	n.w.led++
	if o.up && o.m.Role() == Leads {
		n.w.both++
	}
	if a.Above != 0 {
		above := a.Over(max(n.own.Last, n.own.Passed))
		n.own.Last, n.own.Passed = max(n.own.Last, above), max(n.own.Passed, above)
	}
	if n.own.Epoch <= n.own.Passed {
		n.anew = n.own.Epoch != 0
		defer n.publish(grid, true)
	}
	if a.Doubt == "" {
		return
	}
	n.w.doubts++
	if n.w.untimed = n.w.untimed || !n.timed; !n.w.untimed && n.own.Last < n.w.top {
		n.w.t.Fatalf("%d leads in doubt above %d, and number %d was given", n.id, n.own.Last, n.w.top)
	}
	if !n.w.faults {
		n.w.t.Fatalf("nothing has gone wrong, and %d leads in doubt: %s", n.id, a.Doubt)
	}
}

// adopt adopts the other daemon's state.
func (n *node) adopt() {
	w, plan := n.answer.answer.Word, n.answer.plan
	if !w.Whole {
		n.w.t.Fatalf("%d takes over a state that has not come", n.id)
	}
	above, last := w.Passed, max(n.own.Last, w.Last)
	if w.Last < n.lost || n.m.Role() == TakesOver && w.Last <= n.own.Passed {
		above = max(above, n.own.Passed)
	} else if w.Last > n.own.Passed {
		n.own.Passed = 0
	}
	if n.own.Last = last; w.Epoch <= above { // clients get the next plan
		n.step(Adopted{})
		return
	}
	if w.Epoch < n.own.Epoch || w.Epoch == n.own.Epoch && plan != n.plan {
		n.w.t.Fatalf("%d has plan %d with number %d, and takes over plan %d with number %d", n.id, n.plan, n.own.Epoch, plan, w.Epoch)
	}
	if n.w.lossy && n.w.dice.Intn(8) == 0 {
		n.w.faults = true
		n.step(Adopted{Err: "it is damaged"})
		return
	}
	n.own.Epoch, n.plan = w.Epoch, plan
	n.store(Numbers{Last: max(n.stored.Last, w.Epoch), Epoch: w.Epoch})
	n.step(Adopted{})
}

// store stores the plan in force, which clients have now.
func (n *node) store(all Numbers) {
	if n.own.Epoch < n.shown {
		n.w.t.Fatalf("%d has shown plan number %d, and shows %d", n.id, n.shown, n.own.Epoch)
	}
	if n.shown = n.own.Epoch; n.full {
		n.noted = max(n.noted, all.Last)
		return
	}
	if n.stored, n.kept = (Numbers{Last: all.Last, Epoch: all.Epoch}), n.plan; n.noted <= all.Last {
		n.noted = 0
	}
}

// publish starts publishing a plan of the fabric or of a job if this daemon leads.
func (n *node) publish(takes time.Duration, fabric bool) {
	if !n.up || n.m.Role() != Leads || n.putting != 0 || n.w.plans >= mostPut {
		return
	}
	n.w.plans++
	n.putting, n.put = max(n.own.Last, n.own.Passed)+1, n.w.now.Add(takes)
	if fabric || n.anew {
		n.plan, n.own.Epoch = n.w.plans, n.putting
	}
	n.anew = false
}

// published completes a publication. The plan is now stored and visible to clients.
func (n *node) published() {
	number := n.putting
	if plan, given := n.w.made[number]; given {
		n.w.t.Fatalf("%d gives number %d, which plan %d has", n.id, number, plan)
	}
	if number <= n.told {
		n.w.t.Fatalf("%d gives number %d, and has heard of %d", n.id, number, n.told)
	}
	n.w.made[number], n.w.top = n.w.plans, max(n.w.top, number)
	n.putting, n.own.Last = 0, number
	n.store(n.own)
	n.reply()
	n.work()
}

// word returns the daemon's answer about itself.
func (n *node) word(q *Ask) Word {
	w := n.m.Word()
	w.Numbers, w.Clock = n.own, n.clock().Add(-grid/2).UnixMilli()
	w.Tag = fmt.Sprint(w.Leads, w.Missing, q.Brief)
	if !q.Brief {
		w.Tag = fmt.Sprint(w.Tag, n.own)
		w.Whole = w.Tag != q.Have
	}
	if !w.Whole {
		w.Epoch = 0
	}
	if q.Brief {
		w.Last = max(w.Last, n.lost)
	}
	return w
}

// reply answers the held question if there is news or its time is up.
func (n *node) reply() {
	f := n.held
	if f == nil || !n.up || n.putting != 0 {
		return
	}
	word := n.word(f.question)
	if word.Tag == f.question.Have && n.w.now.Before(f.until) {
		return
	}
	n.held = nil
	n.w.send(&flight{to: n.other(), restart: f.restart, plan: n.plan, answer: Answered{Serial: f.question.Serial, Word: word}})
}

// send sends a message, which may be late or lost. A host without a daemon refuses it.
func (w *world) send(f *flight) {
	f.sent = w.now
	f.at = w.now.Add(time.Duration(w.dice.Int63n(int64(w.slow/grid)+1)) * grid)
	if w.cut || w.lossy && w.dice.Intn(4) == 0 {
		w.faults = true
		if f.question == nil || w.dice.Intn(2) == 0 {
			return // no answer at all
		}
		f = &flight{to: f.to.other(), at: f.at, restart: f.restart, answer: Answered{Serial: f.question.Serial, Err: "no route"}}
	}
	w.flights = append(w.flights, f)
}

// arrive delivers a message.
func (w *world) arrive(f *flight) {
	switch {
	case f.question == nil:
		if f.to.up && f.to.restarts == f.restart {
			f.to.rest(f)
		}
	case !f.to.up:
		w.flights = append(w.flights, &flight{to: f.to.other(), at: w.now, restart: f.restart, answer: Answered{Serial: f.question.Serial, Err: "connection refused"}})
	default:
		f.until = w.now.Add(f.question.Wait)
		f.to.rest(f)
	}
}

// pass advances the time step by step.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(grid) {
		w.happen()
	}
	w.happen()
}

// happen handles all events of the current time.
func (w *world) happen() {
	for _, n := range w.nodes {
		if n.up && n.putting != 0 && !w.now.Before(n.put) {
			n.published()
		}
	}
	for i := 0; i < len(w.flights); i++ { // handling a message may send others
		if f := w.flights[i]; !w.now.Before(f.at) {
			w.flights = append(w.flights[:i], w.flights[i+1:]...)
			w.arrive(f)
			i = -1
		}
	}
	for _, n := range w.nodes {
		if n.up {
			n.reply()
			if wake := n.m.Wake(); !n.clock().Before(wake) {
				n.rest(Tick{})
			}
		}
	}
}

// manager sets a manager's mastership. Without the other one it sees the whole fabric.
func (w *world) manager(i int, master bool) {
	n := w.nodes[i]
	if n.manager.Master == master {
		return
	}
	w.see(i, Manager{Master: master})
	if !master {
		w.see(1-i, Manager{Master: w.nodes[1-i].manager.Master})
	}
}

// see sets what a manager is.
func (w *world) see(i int, e Manager) {
	n := w.nodes[i]
	n.manager = e
	if e.Master && w.nodes[1-i].manager.Master {
		w.faults = true
	}
	if n.up {
		n.step(e)
	}
}

// TestTwo runs two daemons through random histories. Both lead at the same time only if
// one of them began in doubt. A daemon whose manager is not the master never leads. A
// number is given to one plan only. A daemon in doubt never gives a number below another
// one, whatever the difference between the clocks, if all daemons that lead in doubt know
// the other's clock. A daemon gives only numbers above all that it has heard of since its
// start, and never replaces a plan by an older one, whatever it has stored. A daemon that hears of higher numbers
// yields. A takeover is in doubt only after a fault. When all faults have ended, the
// daemon at the master leads and the other one has the same state.
func TestTwo(t *testing.T) {
	if f := flag.Lookup("rapid.steps"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("50"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Value.Set(f.DefValue) }()
	}
	var led, both, plans, doubts int
	histories.Check(t, 3000, func(t *rapid.T) {
		w := newWorld(t)
		actions := map[string]func(*rapid.T){
			"pass": func(t *rapid.T) {
				w.pass(time.Duration(rapid.SampledFrom([]int{0, 1, 2, 5, 9, 11, 30, 200}).Draw(t, "steps")) * grid)
			},
			"wait": func(*rapid.T) { w.pass(3 * grid) },
			"move": func(t *rapid.T) {
				i := rapid.IntRange(0, 1).Draw(t, "manager")
				w.manager(1-i, false)
				w.manager(i, true)
			},
			"publish": func(t *rapid.T) {
				takes, fabric := time.Duration(rapid.IntRange(1, 5).Draw(t, "steps"))*grid, rapid.Bool().Draw(t, "fabric")
				for _, n := range w.nodes { // only a leader publishes
					n.publish(takes, fabric)
				}
			},
		}
		if rapid.IntRange(0, 3).Draw(t, "trouble") > 0 {
			w.trouble(actions)
		}
		w.manager(0, true)
		w.pass(grid)
		t.Repeat(actions)
		plans += w.plans
		doubts += w.doubts
		led += w.led
		both += w.both
		w.heal(rapid.IntRange(0, 1).Draw(t, "master"), rapid.Bool().Draw(t, "parted"))
	})
	t.Logf("%d plans published, %d leads taken, %d of them in doubt, %d while the other one led", plans, led, doubts, both)
}

// trouble adds the actions that cause faults.
func (w *world) trouble(actions map[string]func(*rapid.T)) {
	which := rapid.IntRange(0, 1)
	actions["split"] = func(*rapid.T) { w.manager(0, true); w.manager(1, true) }
	actions["part"] = func(t *rapid.T) { // a manager sees a minor part of the fabric, or the whole
		n := w.nodes[which.Draw(t, "manager")]
		w.see(n.id, Manager{Master: n.manager.Master, Missing: rapid.IntRange(0, 3).Draw(t, "missing")})
	}
	actions["rest"] = func(t *rapid.T) { w.manager(which.Draw(t, "manager"), false) }
	actions["cut"] = func(t *rapid.T) { w.cut = rapid.Bool().Draw(t, "cut") }
	actions["lose"] = func(t *rapid.T) { w.lossy = rapid.Bool().Draw(t, "lossy") }
	actions["slow"] = func(t *rapid.T) {
		w.slow = time.Duration(rapid.SampledFrom([]int{0, 2, 8, 30, 200}).Draw(t, "steps")) * grid
		w.faults = true
	}
	actions["crash"] = func(t *rapid.T) { w.nodes[which.Draw(t, "daemon")].crash() }
	actions["restart"] = func(t *rapid.T) {
		w.now = w.now.Add(grid) // a restart takes time
		if n := w.nodes[which.Draw(t, "daemon")]; !n.up {
			n.start()
		}
	}
	actions["full"] = func(t *rapid.T) {
		w.faults = true
		w.nodes[which.Draw(t, "daemon")].full = rapid.Bool().Draw(t, "full")
	}
	actions["hang"] = func(t *rapid.T) { // the disk hangs
		w.faults = true
		w.nodes[which.Draw(t, "daemon")].publish(time.Duration(rapid.IntRange(5, 50).Draw(t, "steps"))*grid, true)
	}
}

// heal ends all faults, makes one manager the master, unless the other one is that of a minor
// part, and checks that its daemon leads and the other one follows.
func (w *world) heal(master int, parted bool) {
	w.cut, w.lossy, w.slow, w.faults = false, false, 0, true
	w.now = w.now.Add(grid)
	for _, n := range w.nodes {
		if n.full = false; !n.up {
			n.start()
		}
	}
	more, fewer := 0, 0
	if parted {
		more, fewer = 3, w.dice.Intn(3)
	}
	w.see(1-master, Manager{Master: parted, Missing: more})
	w.see(master, Manager{Master: true, Missing: fewer})
	w.pass(40 * time.Second)
	leader, follower := w.nodes[master], w.nodes[1-master]
	settled := func(what string) {
		if leader.m.Role() != Leads || follower.m.Role() != Follows || leader.own.Epoch > leader.own.Passed && (leader.own.Last != follower.own.Last || leader.own.Epoch != follower.own.Epoch || leader.plan != follower.plan) {
			w.t.Fatalf("%s: the master's daemon %v, with %v and plan %d, and the other one %v, with %v and plan %d",
				what, leader.m.Role(), leader.own, leader.plan, follower.m.Role(), follower.own, follower.plan)
		}
		for _, n := range w.nodes {
			if n.m.raised[PeerLost] || n.m.raised[PeerLeads] || n.m.raised[ManagerStandby] != (n == follower) {
				w.t.Fatalf("%s: %d warns of %v", what, n.id, n.m.raised)
			}
		}
	}
	settled("all is well")
	w.faults = false
	w.plans = min(w.plans, mostPut-1)
	leader.publish(grid, true)
	w.pass(5 * grid)
	settled("and a plan was published")
	w.manager(master, false)
	w.manager(1-master, true)
	w.pass(5 * grid)
	leader, follower = follower, leader
	settled("and the mastership was handed over")
}
