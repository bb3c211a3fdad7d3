package umad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/ib"
)

// Event is what a subscription has to tell: a trap, or how the subscription
// stands.
type Event struct {
	Notice *Notice // a trap, as the subnet administrator passed it on
	// Manager is the LID of the manager that has accepted the subscription: from
	// here on its traps come. Traps may have been missed before.
	Manager ib.LID
	Err     string // why the subscription fails now; it is retried
}

// Subscription is the parameters of a subscription.
type Subscription struct {
	// Check is how often the local port is asked who the manager is, Renew how often the
	// subscription is renewed, for a manager that forgot it at a restart, and Retry the
	// pause after a failure; 0 means 1 s, 1 min and 2 s.
	Check, Renew, Retry time.Duration
}

// traps are those subscribed to.
var traps = []uint16{TrapInService, TrapOutOfService, TrapLinkState, TrapCapabilities}

const (
	subscribeTimeout = time.Second
	subscribeTries   = 3
	reportPatience   = 50 * time.Millisecond // between looks at the clock and the context
	eventsAhead      = 64                    // that the reader of the channel may be late by
)

// administration sends datagrams to the subnet administrator and receives its
// answers and Reports. One goroutine uses it.
type administration interface {
	wire
	from() ib.LID   // who sent what was received last
	level(sl uint8) // of sent datagrams
}

// Subscribe subscribes to traps at the subnet administrator (InformInfo, section 13.4.8.3),
// on any host that runs the master subnet manager, and keeps the subscription up over
// handovers. Each Report is answered before its event is sent. A Report whose answer is
// lost comes again. The channel is closed when ctx ends. The port that r has is opened a
// second time; a process can have one subscription.
func (r *Reader) Subscribe(ctx context.Context, s Subscription) (<-chan Event, error) {
	d, err := open(r.port, gsiQP, subscribeTimeout, agent{class: classSubnAdm, version: 2, reports: true})
	if err != nil {
		return nil, fmt.Errorf("open port %s for Reports: %w", r.port, err)
	}
	events := make(chan Event, eventsAhead)
	x := newSubscriber(d, s, func(e Event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	})
	x.self = func() (PortInfo, error) {
		_, _, p, err := r.Self(ctx)
		return p, err
	}
	go func() {
		defer close(events)
		defer d.close()
		x.run(ctx)
	}()
	return events, nil
}

// subscriber keeps a subscription up. Its times are when something is due next.
type subscriber struct {
	Subscription
	sa   administration
	self func() (PortInfo, error)
	tell func(Event)

	manager ib.LID   // 0 if not known
	port    PortInfo // the local one
	check   time.Time
	renew   time.Time
	trouble string // the last error told, "" after a success

	open  []wish // wishes that were sent and not answered
	tid   uint32
	buf   mad
	fresh bool // the wishes were sent again to this manager
}

// wish is a subscription to one trap that was asked for.
type wish struct {
	trap     uint16
	tid      uint32
	tries    int
	deadline time.Time
}

func newSubscriber(sa administration, s Subscription, tell func(Event)) *subscriber {
	s.Check = cmp.Or(s.Check, time.Second)
	s.Renew = cmp.Or(s.Renew, time.Minute)
	s.Retry = cmp.Or(s.Retry, 2*time.Second)
	return &subscriber{Subscription: s, sa: sa, tell: tell}
}

// run lasts until ctx ends; then it takes the subscription back, as far as one
// datagram for each trap does that.
func (x *subscriber) run(ctx context.Context) {
	for ctx.Err() == nil {
		now := time.Now()
		if !now.Before(x.check) {
			x.look(now)
		}
		if x.manager != 0 && !now.Before(x.renew) {
			x.subscribe(now)
		}
		x.expire(now)
		x.receiveOne()
	}
	if x.manager != 0 {
		for _, trap := range traps {
			x.tid++
			_ = x.send(informInfo{trap: trap}, x.tid) // the manager forgets those that do not answer, too
		}
	}
}

// look asks the local port who the manager is. A new one, or a LID of our own
// that has changed, needs a new subscription.
func (x *subscriber) look(now time.Time) {
	x.check = now.Add(x.Check)
	p, err := x.self()
	if err == nil && p.SMLID == 0 {
		err = errors.New("no subnet manager has set up the local port yet")
	}
	if err != nil {
		x.manager = 0
		x.fail(err)
		return
	}
	if x.manager != p.SMLID || x.port.LID != p.LID {
		x.renew, x.fresh = now, true
	}
	x.manager, x.port = p.SMLID, p
	x.sa.level(p.SMSL)
}

// subscribe asks for all traps.
func (x *subscriber) subscribe(now time.Time) {
	x.renew = now.Add(x.Renew)
	x.open = x.open[:0]
	for _, trap := range traps {
		x.open = append(x.open, wish{trap: trap})
	}
	for i := range x.open {
		if !x.request(&x.open[i], now) {
			return
		}
	}
}

// request sends a wish, and returns false where that cannot be done.
func (x *subscriber) request(w *wish, now time.Time) bool {
	x.tid++
	w.tid, w.tries, w.deadline = x.tid, w.tries+1, now.Add(subscribeTimeout)
	if err := x.send(informInfo{trap: w.trap, subscribe: true}, w.tid); err != nil {
		x.giveUp(now, fmt.Errorf("send InformInfo to LID %d: %w", x.manager, err))
		return false
	}
	return true
}

func (x *subscriber) send(i informInfo, tid uint32) error {
	x.buf.header(classSubnAdm, 2, methodSet, tid, attrInformInfo, 0)
	i.put(x.buf[saData:])
	return x.sa.send(&x.buf, uint16(x.manager))
}

// expire repeats questions that were not answered in time.
func (x *subscriber) expire(now time.Time) {
	for i := range x.open {
		w := &x.open[i]
		if now.Before(w.deadline) {
			continue
		}
		if w.tries == subscribeTries {
			x.giveUp(now, fmt.Errorf("the manager at LID %d does not answer InformInfo, asked %d times", x.manager, w.tries))
			return
		}
		if !x.request(w, now) {
			return
		}
	}
}

// giveUp ends an attempt; there is another one after Retry.
func (x *subscriber) giveUp(now time.Time, err error) {
	x.open, x.renew = x.open[:0], now.Add(x.Retry)
	x.fail(err)
}

// fail reports an error that was not reported before.
func (x *subscriber) fail(err error) {
	x.fresh = true
	if text := err.Error(); text != x.trouble {
		x.trouble = text
		x.tell(Event{Err: text})
	}
}

// receiveOne receives one datagram, if one comes in time.
func (x *subscriber) receiveOne() {
	ok, lost, err := x.sa.receive(&x.buf, reportPatience)
	switch {
	case err != nil:
		x.giveUp(time.Now(), fmt.Errorf("receive Reports: %w", err))
		time.Sleep(reportPatience)
	case !ok || x.buf.class() != classSubnAdm:
	case lost: // it is due now
		for i := range x.open {
			if w := &x.open[i]; w.tid == x.buf.tid() {
				w.deadline = time.Time{}
			}
		}
	case x.buf.method() == methodReport && x.buf.attribute() == attrNotice:
		x.report()
	case x.buf.method() == methodGetResp && x.buf.attribute() == attrInformInfo:
		x.granted()
	}
}

// report answers a Report and passes on its notice.
func (x *subscriber) report() {
	n, err := parseNotice(x.buf[saData:])
	x.buf[3] = methodReportResp
	if e := x.sa.send(&x.buf, uint16(x.sa.from())); e != nil {
		x.fail(fmt.Errorf("answer a Report: %w", e))
	}
	if err == nil { // vendors' notices are not what was asked for
		x.tell(Event{Notice: &n})
	}
}

// granted takes the answer to a wish. The last one makes the subscription.
func (x *subscriber) granted() {
	i := slices.IndexFunc(x.open, func(w wish) bool { return w.tid == x.buf.tid() })
	if i < 0 {
		return
	}
	if status := x.buf.status(); status != 0 {
		x.giveUp(time.Now(), fmt.Errorf("the manager at LID %d refuses a subscription to trap %d with status %#04x", x.manager, x.open[i].trap, status))
		return
	}
	x.open = slices.Delete(x.open, i, i+1)
	if len(x.open) == 0 && x.fresh {
		x.fresh, x.trouble = false, ""
		x.tell(Event{Manager: x.manager})
	}
}
