package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/url"
	"strconv"
	"time"

	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/standby/replica"
)

// exchange is a question of a forsd to the other one.
type exchange struct {
	ask     standby.Ask
	to      *process
	ctx     context.Context
	end     context.CancelFunc
	said    []byte
	err     error
	done    bool
	brought bool
}

// converse has the network carry the questions of a forsd and their answers. The end of a
// connection is noticed, a network that carries nothing is not.
func (p *process) converse() {
	w := p.w
	select {
	case a := <-p.d.peer.Asks:
		if p.asks != nil {
			p.asks.end()
		}
		x := &exchange{ask: a}
		x.ctx, x.end = context.WithCancel(p.ctx)
		p.asks = x
		w.after(w.between(0, 2), func() { w.carry(x) })
	default:
	}
	x := p.asks
	if x == nil || !x.done || x.brought {
		return
	}
	x.brought = true
	w.after(w.between(0, 2), func() {
		if w.apart && x.err == nil || p.dead || x.ctx.Err() != nil {
			return
		}
		said := &replica.Replica{}
		if x.err == nil {
			x.err = json.Unmarshal(x.said, said)
		}
		go func() {
			_ = p.d.inbox.between(x.ctx, func(ctx context.Context, t turn) { t.peerSays(ctx, x.ask.Serial, said, x.err) })
		}()
	})
}

// carry brings a question to the other forsd, which answers.
func (w *world) carry(x *exchange) {
	switch x.to = w.sides[1-w.number].forsd; {
	case w.apart && w.rng.IntN(2) == 0:
		return
	case w.apart, x.to == nil, x.to.d == nil:
		x.err, x.done = errors.New("connection refused"), true
		return
	}
	q := url.Values{"have": {x.ask.Have}, "wait": {strconv.Itoa(int(x.ask.Wait.Seconds()))}}
	if x.ask.Brief {
		q.Set("brief", "1")
	}
	if x.ask.Claim != 0 {
		q.Set("claim", strconv.FormatUint(x.ask.Claim, 10))
	}
	go func() {
		out, err := x.to.d.peer.Answer(httptest.NewRequestWithContext(x.ctx, "GET", "/v1/replica?"+q.Encode(), nil))
		if x.done {
			return
		}
		if x.err = err; err == nil {
			x.said, x.err = json.Marshal(out)
		}
		x.done = true
	}()
}

// cutOff ends the connections to a forsd that is killed.
func (w *world) cutOff(p *process) {
	for _, s := range w.sides {
		if s.forsd != nil && s.forsd.asks != nil && s.forsd.asks.to == p && !s.forsd.asks.done {
			s.forsd.asks.err, s.forsd.asks.done = errors.New("EOF"), true
		}
	}
}

// leader returns the side whose manager is the master and whose forsd leads, nil if there is
// none, or two. Of two masters that do not see each other, the one counts that sees more.
func (w *world) leader() (lead *side) {
	if len(w.sides) == 1 {
		return w.sides[0]
	}
	for _, s := range w.sides {
		if s.forsd == nil || s.forsd.d == nil || !s.manager.master || s.forsd.d.standby.Role() != standby.Leads || w.seesLess(s) {
			continue
		}
		if lead != nil {
			return nil
		}
		lead = s
	}
	return lead
}

// seesLess reports whether the other manager is a master, too, and sees more of the fabric.
func (w *world) seesLess(s *side) bool {
	count := func(m *subnetManager) (n int) {
		for _, there := range w.plant.near(m.host) {
			if there {
				n++
			}
		}
		return n
	}
	other := w.sides[1-s.number].manager
	return other.master && count(other) > count(s.manager)
}

// contact is when the two forsd could speak with each other, last.
type contact struct {
	is       bool
	from, to time.Time
	lead     *process // the last that has led
	lost     bool     // it has not led alone since
	other    bool     // another one has
	unsure   bool     // what is drained is known by the word of one that leads alone
	answered time.Time
}

// followLead notes which forsd leads. What operators were told holds under a new leader if it
// has been in contact with the one before for long.
func (w *world) followLead() {
	if !w.set.pair {
		return
	}
	c, now := &w.judge.contact, time.Now()
	is := !w.apart
	for _, s := range w.sides {
		is = is && s.forsd != nil && s.forsd.d != nil && now.Sub(s.forsd.since) > time.Second
	}
	if is && !c.is {
		c.from = now
	}
	if is {
		c.to = now
	}
	c.is = is
	for _, s := range w.sides {
		c.other = c.other || s.forsd != nil && s.forsd != c.lead && s.forsd.d != nil && s.forsd.d.standby.Role() == standby.Leads
	}
	lead := w.leader()
	if lead == nil || lead.forsd == c.lead && !c.lost {
		c.lost = c.lost || lead == nil
		return
	}
	p := lead.forsd
	c.lost = false
	p.blind, p.first = true, p.d.state.Now().EpochNumber()
	clear(w.judge.forgone)
	brief := c.to.Sub(c.from) < 20*time.Second || c.to.Sub(c.answered) < 2*time.Second
	if c.lead != nil && (c.unsure || (p != c.lead || c.other) && brief) {
		w.ordered, w.leases, c.unsure = nil, nil, brief
		for _, d := range p.d.state.Now().Drains {
			w.ordered = append(w.ordered, d.Part)
		}
	}
	c.lead, c.other = p, false
	w.note("forsd leads%s", (&world{sides: w.sides, side: lead}).where())
}

// rival returns the other manager if it runs and can be reached, nil otherwise.
func (m *subnetManager) rival() *subnetManager {
	for _, s := range m.w.sides {
		if x := s.manager; x != m && x.pid != 0 && m.w.plant.near(m.host)[x.host] {
			return x
		}
	}
	return nil
}

// begin has the manager become the master unless there is one.
func (m *subnetManager) begin() {
	if r := m.rival(); r != nil && r.master {
		m.stand()
		return
	}
	m.rule()
}
