package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/opensm/plugin"
)

// This file is for two managers with a forsd each. The one beside the master leads;
// the other follows it by its API: it keeps the same state, serves the same plan,
// and makes plan and tables of the same fabric, so that they are there when its
// manager takes over. docs/operating.md tells the operator's side.

// peer is the forsd beside the other manager.
type peer struct {
	client  *api.Client
	address string
	limit   time.Duration // of a takeover's wait for its state
	role    bell          // rings when this daemon begins or ceases to lead
	asked   uint64        // takeovers so far; owned by the loop, as what follows
	taking  uint64        // the one that waits for the peer's state, 0 for none
	shown   bool          // the fabric seen last is not the peer's, and not of another reign
}

const (
	followWait  = 10 * time.Second       // a long poll
	followGrace = 5 * time.Second        // what an answer may take beyond that
	followAgain = 250 * time.Millisecond // between attempts to reach the peer
	handingOver = 10 * time.Millisecond  // between two looks at a peer that leads still
)

// newPeer is the peer that the configuration names, nil for none.
func newPeer(c config.Peer) (*peer, error) {
	if c.Address == "" {
		return nil, nil
	}
	client, err := api.Dial(c.Address)
	if err != nil {
		return nil, fmt.Errorf("peer.address: %w", err)
	}
	return &peer{client: client, address: c.Address, limit: c.Timeout}, nil
}

// ask asks for what it has beyond have, and waits for that so long.
func (p *peer) ask(ctx context.Context, have string, brief bool, wait time.Duration) (*replica, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+followGrace)
	defer cancel()
	q := url.Values{"have": {have}, "wait": {strconv.Itoa(int(wait.Seconds()))}}
	if brief {
		q.Set("brief", "1")
	}
	r := &replica{}
	if err := p.client.Call(ctx, http.MethodGet, replicaPath+"?"+q.Encode(), nil, r); err != nil {
		return r, err
	}
	return r, r.check()
}

// final is the peer's state when it leads no more.
func (p *peer) final(ctx context.Context) (*replica, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, fmt.Errorf("it took longer than %v", p.limit))
	defer cancel()
	for {
		r, err := p.ask(ctx, "", false, 0)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, err
		case !r.Leads:
			return r, nil
		}
		select {
		case <-time.After(handingOver):
		case <-ctx.Done():
			return nil, fmt.Errorf("it leads as well: %w", context.Cause(ctx))
		}
	}
}

// follow keeps in step with the peer while that leads, and looks whether both do
// while this daemon does.
func (d *Daemon) follow(ctx context.Context) error {
	defer d.peer.client.Close()
	have := ""
	for ctx.Err() == nil {
		role := d.peer.role.next()
		turn, cancel := until(ctx, role)
		leads := !d.standsBy()
		r, err := d.peer.ask(turn, have, leads, followWait)
		if err == nil {
			err = d.heed(turn, leads, r)
		}
		changed := turn.Err() != nil
		cancel()
		have = r.Tag
		if changed || err != nil {
			have = ""
		}
		if changed {
			continue
		}
		d.judgePeer(leads, r, err)
		if err == nil {
			continue
		}
		select {
		case <-time.After(followAgain):
		case <-role:
		case <-ctx.Done():
		}
	}
	return nil
}

// until is a context that ends with an event as well.
func until(ctx context.Context, event <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-event:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// heed does what the peer's answer calls for. leads tells whether this daemon led
// when it asked.
func (d *Daemon) heed(ctx context.Context, leads bool, r *replica) error {
	switch {
	case leads:
		return d.calm(ctx, func() { d.yield(r) })
	case !r.Leads:
		return d.calm(ctx, d.regain)
	case r.Whole:
		return d.mirrored(ctx, r)
	}
	return nil
}

// mirrored has the loop take over the peer's state, unless this daemon leads by
// then.
func (d *Daemon) mirrored(ctx context.Context, r *replica) error {
	var err error
	cerr := d.calm(ctx, func() {
		if d.core.Standby() && d.peer.taking == 0 {
			err = d.mirror(d.life, r) // what it begins outlasts the request
		}
	})
	return errors.Join(cerr, err)
}

// yield has this daemon follow where the peer has given higher numbers: it took over
// while this one's manager hung, or could not be reached, and this one's plans are
// the older ones. See regain for what follows. It runs while no action is under way.
func (d *Daemon) yield(r *replica) {
	if d.core.Standby() || r.Last <= d.store.Last() {
		return
	}
	d.log.Warn("the other forsd has led meanwhile", zap.String("peer", d.peer.address), zap.Uint64("its_last", r.Last), zap.Uint64("last", d.store.Last()))
	d.lost(d.life)
}

// regain has this daemon lead again that yielded and whose manager is the master
// still, when the peer leads no more. It runs while no action is under way.
func (d *Daemon) regain() {
	if d.link.connected && d.link.state == plugin.Master {
		d.gained(d.life)
	}
}

// judgePeer warns of a peer that cannot be followed, or that leads as well.
func (d *Daemon) judgePeer(leads bool, r *replica, err error) {
	if err != nil {
		d.health.Raise(peerLost, fmt.Sprintf("the forsd at %s cannot be followed: %v", d.peer.address, err), time.Now())
		return
	}
	d.health.Clear(peerLost)
	if leads && r.Leads {
		d.health.Raise(peerLeads, fmt.Sprintf("the forsd at %s says that the manager beside it is the master, too", d.peer.address), time.Now())
		return
	}
	d.health.Clear(peerLeads)
}

// standsBy tells whether another manager is the master.
func (d *Daemon) standsBy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.standby
}

// mustLead refuses what only the leading daemon may do.
func (d *Daemon) mustLead() error {
	switch {
	case !d.standsBy():
		return nil
	case d.peer == nil:
		return api.Refused("another subnet manager is the master: ask the forsd beside it")
	}
	return api.Refused("another subnet manager is the master: ask the forsd beside it, at %s", d.peer.address)
}

// gained takes note that the manager is the master. With a peer, that is asked for
// its state first, and work begins when that has come or cannot be had.
func (d *Daemon) gained(ctx context.Context) {
	switch {
	case d.peer == nil:
		d.lead(ctx)
	case d.core.Standby() && d.peer.taking == 0:
		d.peer.asked++
		this := d.peer.asked
		d.peer.taking = this
		d.work.Go(func() {
			r, err := d.peer.final(ctx)
			// Where it is not run the daemon ends.
			_ = d.calm(ctx, func() {
				if d.peer.taking == this { // and mastership was not lost again
					d.takeOver(ctx, r, err)
				}
			})
		})
	}
}

// takeOver begins to lead with the state of the peer, or without it. It runs while
// no action is under way.
func (d *Daemon) takeOver(ctx context.Context, r *replica, err error) {
	d.peer.taking = 0
	if err == nil && r.Whole && r.Last >= d.store.Last() {
		err = d.keep(r)
	}
	if err != nil {
		d.leadInDoubt(err)
	}
	d.log.Info("forsd leads", zap.Uint64("epoch", d.epochNumber()), zap.Uint64("last", d.store.Last()), zap.NamedError("doubt", err))
	d.lead(ctx)
	if !d.peer.shown {
		return
	}
	seen := d.latest()
	v, err := newView(seen.tree.Fabric, d.baseline(), d.cfg.Planning.Exclude)
	if err != nil {
		d.step(ctx, controller.Refused{Reason: err.Error()})
		return
	}
	v.seenAt, v.complete = seen.seenAt, seen.complete
	d.take(ctx, v, false)
}

// leadInDoubt goes on from the state at hand where the peer may have published
// since. The next number is the time in milliseconds: no number given before is
// higher, for none of them has been ahead of the clock. The plan is published under
// it even if it is the one in force, which might be older than what ranks have.
func (d *Daemon) leadInDoubt(why error) {
	d.log.Warn("the other forsd cannot be asked for its last plan: the next epoch is numbered by the clock", zap.String("peer", d.peer.address), zap.Error(why))
	d.store.Raise(uint64(time.Now().UnixMilli()) - 1)
	d.reissue = true
}

// lead has the controller begin.
func (d *Daemon) lead(ctx context.Context) {
	d.health.Clear(managerStandby)
	d.step(ctx, controller.Mastership{Master: true})
	d.roleChanged()
}

// lost takes note that another manager is the master, or about to be. What the
// switches hold is its business from now on.
func (d *Daemon) lost(ctx context.Context) {
	text := "another subnet manager is the master; forsd plans, and publishes and writes nothing, until this one is"
	if d.peer != nil {
		d.peer.taking, d.peer.shown = 0, false
		text += "; it follows the forsd at " + d.peer.address
	}
	d.health.Raise(managerStandby, text, time.Now())
	d.stopLiquid()
	d.waiting = append(d.waiting, d.forgetTables) // an action under way may need them
	d.step(ctx, controller.Mastership{Master: false})
	d.roleChanged()
}

// forgetTables forgets what the switches held, where that is another's business.
func (d *Daemon) forgetTables() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.standby {
		d.desk.Forget()
	}
}

// roleChanged wakes those who wait for that.
func (d *Daemon) roleChanged() {
	d.news.ring()
	if d.peer != nil {
		d.peer.role.ring()
	}
}

// layOut keeps the tables of a plan made ahead: in the table file, which the manager
// loads should it take over without forsd, and for its plugin.
func (d *Daemon) layOut(ctx context.Context, v *view, a controller.Plan) error {
	if d.peer == nil {
		return nil
	}
	r, err := v.route(ctx, a.Hold, d.planning())
	if err != nil {
		return err
	}
	_, err = d.desk.Deliver(v.id, v.tree.Fabric, r.tables)
	return err
}
