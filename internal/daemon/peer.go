package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/standby/replica"
	"github.com/forsd/forsd/internal/store"
)

// This file carries out what internal/standby decides: it asks the other forsd, answers
// it, and begins and ceases to lead. docs/operating.md tells the operator's side.

// peer is the forsd beside the other manager, as this daemon deals with it.
type peer struct {
	machine *standby.Machine // owned by the loop
	said    *replica.Replica // its last answer; owned by the loop
	shown   bool             // the fabric seen last is not the other one's, and not of another reign; owned by the loop
	address string           // "" where there is none
	client  *api.Client      // nil where there is none
	asks    chan standby.Ask // the question to put next
	desk    replica.Desk     // answers it
}

// newPeer is the peer that the configuration names, if any.
func newPeer(c config.Peer) (*peer, error) {
	p := &peer{address: c.Address, asks: make(chan standby.Ask, 1),
		machine: standby.New(standby.Settings{Peer: c.Address, TakeoverWait: c.Timeout, Salt: rand.Uint32()})}
	if c.Address == "" {
		return p, nil
	}
	var err error
	if p.client, err = api.Dial(c.Address); err != nil {
		return nil, fmt.Errorf("peer.address: %w", err)
	}
	return p, nil
}

// is tells whether there is one.
func (p *peer) is() bool { return p.client != nil }

// put has a question asked, in place of one that has not been asked yet.
func (p *peer) put(a standby.Ask) {
	select {
	case <-p.asks:
	default:
	}
	p.asks <- a
}

// askPeer puts the machine's questions to the peer, one at a time: the next one ends
// the one before.
func (d *Daemon) askPeer(ctx context.Context) error {
	defer d.peer.client.Close()
	end := context.CancelFunc(func() {})
	for {
		select {
		case <-ctx.Done():
			end()
			return nil
		case a := <-d.peer.asks:
			end()
			var this context.Context
			this, end = context.WithCancel(ctx)
			d.work.Go(func() {
				r, err := replica.Ask(this, d.peer.client, a)
				// Where it is not run, there is another question, or the daemon ends.
				_ = d.calm(this, func() { d.peerSays(a.Serial, r, err) })
			})
		}
	}
}

// peerSays takes in an answer of the peer. It runs while no action is under way.
func (d *Daemon) peerSays(serial uint64, r *replica.Replica, err error) {
	d.peer.said = r
	own := standby.Numbers{Last: d.store.Last(), Epoch: d.board.EpochNumber()}
	d.stand(d.life, standby.Answered{Serial: serial, Word: r.Word(), Own: own, Err: controller.Text(err)})
}

// stand gives the machine an event and carries out what it answers.
func (d *Daemon) stand(ctx context.Context, e standby.Event) {
	if d.watches() {
		return
	}
	for _, a := range d.peer.machine.Step(time.Now(), e) {
		switch a := a.(type) {
		case standby.Ask:
			d.peer.put(a)
		case standby.Adopt:
			d.stand(ctx, standby.Adopted{Err: controller.Text(d.adoptPeer(ctx))})
		case standby.Lead:
			d.lead(ctx, a)
		case standby.Follow:
			d.follow(ctx, a)
		case standby.Warn:
			d.health.Raise(a.Code, a.Text, time.Now())
		case standby.Clear:
			d.health.Clear(a.Code)
		}
	}
}

// adoptPeer takes over what the peer has said. A daemon that takes over plans when its
// own manager has found the fabric, and not before.
func (d *Daemon) adoptPeer(ctx context.Context) error {
	if d.peer.machine.Role() == standby.TakesOver {
		return d.keep(d.peer.said)
	}
	return d.mirror(ctx, d.peer.said)
}

// lead begins to lead. In doubt the plan in force, which might be older than what ranks
// have, is published under a number of its own even if it stays.
func (d *Daemon) lead(ctx context.Context, a standby.Lead) {
	if a.Doubt != "" {
		d.log.Warn("the other forsd cannot be asked for its last plan: the next epoch is numbered by the clock", zap.String("peer", d.peer.address), zap.String("because", a.Doubt))
		d.store.Raise(a.Above)
		d.press.Reissue(true)
	}
	if d.peer.is() {
		d.log.Info("forsd leads", zap.Uint64("epoch", d.board.EpochNumber()), zap.Uint64("last", d.store.Last()))
	}
	d.step(ctx, controller.Mastership{Master: true})
	d.peer.desk.Ring()
	if !d.peer.is() || !d.peer.shown {
		return
	}
	seen := d.board.Latest()
	v, err := d.fit(seen.Fabric)
	if err != nil {
		d.step(ctx, controller.Refused{Reason: err.Error()})
		return
	}
	v.SeenAt, v.Complete = seen.SeenAt, seen.Complete
	d.take(ctx, v, false)
}

// follow ceases to lead. What the switches hold is another's business from now on.
func (d *Daemon) follow(ctx context.Context, a standby.Follow) {
	if a.Why != "" {
		d.log.Warn(a.Why, zap.String("peer", d.peer.address))
	}
	d.peer.shown = false
	d.giveUp()
	d.waiting = append(d.waiting, d.forgetTables) // an action under way may need them
	d.step(ctx, controller.Mastership{Master: false})
	d.peer.desk.Ring()
}

// mustLead refuses what only the leading daemon may do.
func (d *Daemon) mustLead() error {
	switch {
	case !d.board.StandsBy():
		return nil
	case d.watches():
		return errWatches
	case !d.peer.is():
		return api.Refused("another subnet manager is the master: ask the forsd beside it")
	}
	return api.Refused("another subnet manager is the master: ask the forsd beside it, at %s", d.peer.address)
}

// forgetTables forgets what the switches held, where that is another's business.
func (d *Daemon) forgetTables() {
	if d.board.StandsBy() {
		d.desk.Forget()
	}
}

// showPeer is what the peer that asks is to know, between two actions.
func (d *Daemon) showPeer(ctx context.Context, q standby.Ask) (out *replica.Replica, err error) {
	err = d.calm(ctx, func() {
		d.stand(d.life, standby.Asked{Claim: q.Claim})
		out = d.replica(q.Have, q.Brief)
	})
	return out, err
}

// replica is the state now. It runs while no action is under way.
func (d *Daemon) replica(have string, brief bool) *replica.Replica {
	out := &replica.Replica{Leads: d.peer.machine.Role() == standby.Leads, Claim: d.peer.machine.Claim(), Last: d.store.Last()}
	e, v, base, jobs := d.board.Current(), d.board.Latest(), d.board.Baseline(), d.jobs.List()
	h := sha256.New()
	fmt.Fprintln(h, out.Leads, brief)
	if !brief {
		fmt.Fprintln(h, out.Last)
		if base != nil {
			h.Write(base.Encode())
		}
		if v != nil {
			fmt.Fprintln(h, v.ID)
		}
		if e != nil {
			fmt.Fprintln(h, e.Epoch)
		}
		for _, j := range jobs {
			fmt.Fprintln(h, j.ID, j.Epoch, j.Expires.UnixNano())
		}
	}
	out.Tag = hex.EncodeToString(h.Sum(nil)[:8])
	if brief || out.Tag == have {
		return out
	}
	out.Whole, out.Baseline = true, base
	if v != nil {
		out.Fabric = v.Fabric
	}
	if e != nil {
		out.Epoch = &replica.Kept[store.EpochInfo]{About: e.EpochInfo, Table: e.Plan.Bytes()}
	}
	for _, j := range jobs {
		out.Jobs = append(out.Jobs, replica.Kept[store.JobInfo]{About: j.JobInfo, Table: j.Plan.Bytes()})
	}
	return out
}
