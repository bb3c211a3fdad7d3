package daemon

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/topology"
)

// This file carries out the decisions of internal/standby: it asks the other forsd,
// answers it, and starts and stops leading. docs/managers.md has the operator's view.

// mastership reports to the machine whether the manager is the master, and how many hosts its fabric
// lacks if it is a minor part. That counts only beside another forsd.
func (l *loop) mastership(ctx context.Context, master bool) {
	if l.cfg.Watches() {
		return
	}
	if !master {
		l.own, l.sent = nil, nil
	}
	missing := 0
	if l.peer.Exists() {
		missing = mostMissing(l.sent, l.state.Now().Baseline)
	}
	l.stepStandby(ctx, standby.Manager{Master: master, Missing: missing})
}

// mostMissing counts the baseline's hosts that are missing from a fabric, if these are most.
func mostMissing(f *topology.Fabric, b *topology.Baseline) int {
	if f == nil || b == nil {
		return 0
	}
	there := map[ib.GUID]bool{}
	for _, p := range f.EndPorts() {
		there[p.GUID] = f.At(p.PortRef).Peer != topology.None
	}
	hosts, missing := 0, 0
	for h := range b.Hosts() {
		if hosts++; !there[h.GUID] {
			missing++
		}
	}
	if 2*missing <= hosts {
		return 0
	}
	return missing
}

// stepStandby passes an event to the machine and carries out its actions, except that the
// caller must adopt the other forsd's state in a turn.
func (l *loop) stepStandby(ctx context.Context, e standby.Event) (adopt bool) {
	all := l.standby.Step(time.Now(), e)
	t, _ := l.atRest()
	t.handover().PassOver(all)
	l.showPeer() // before a question is sent or a number is given
	for _, a := range all {
		switch a := a.(type) {
		case standby.Ask:
			l.peer.Put(a)
		case standby.Adopt:
			adopt = true
		case standby.Lead:
			l.lead(ctx, a)
		case standby.Follow:
			l.follow(ctx, a)
		case standby.Warn:
			l.health.Raise(a.Code, a.Text, time.Now())
		case standby.Clear:
			l.health.Clear(a.Code)
		}
	}
	return adopt
}

// showPeer shows the state to the other forsd. The complete state is shown between two
// actions only.
func (l *loop) showPeer() {
	if !l.peer.Exists() {
		return
	}
	if t, rests := l.atRest(); rests {
		l.peer.Desk.Show(t.handover().Now(l.standby.Word()))
	} else {
		l.peer.Desk.Begins(l.standby.Word())
	}
}

// lead begins to lead. A plan in force that may be older than the ranks' is published under a new
// number even if it is unchanged.
func (l *loop) lead(ctx context.Context, a standby.Lead) {
	if a.Doubt != "" {
		l.log.Warn("the other forsd cannot be asked for its last plan: the next epoch is numbered by the clock", zap.String("peer", l.peer.Address), zap.String("because", a.Doubt))
	}
	if l.peer.Exists() {
		l.log.Info("forsd leads", zap.Uint64("epoch", l.state.Now().EpochNumber()), zap.Uint64("last", l.store.Disk.Numbers.Last()))
		l.state.Emit(api.KindLead, api.Takeover{Leads: true, Why: a.Doubt, Epoch: l.state.Now().EpochNumber()})
	}
	l.step(ctx, controller.Mastership{Master: true})
	if !l.peer.Exists() || l.own == nil {
		return
	}
	seen := l.own
	v, err := l.fit(seen.Fabric)
	if err != nil {
		l.step(ctx, controller.Refused{Reason: err.Error()})
		return
	}
	v.SeenAt, v.Complete = seen.SeenAt, seen.Complete
	l.show(ctx, v, false)
}

// follow stops leading. From now on another daemon controls the switches.
func (l *loop) follow(ctx context.Context, a standby.Follow) {
	if a.Why != "" {
		l.log.Warn(a.Why, zap.String("peer", l.peer.Address))
	}
	if l.peer.Exists() {
		l.state.Emit(api.KindLead, api.Takeover{Why: a.Why, Epoch: l.state.Now().EpochNumber()})
	}
	l.giveUp()
	l.waiting = append(l.waiting, func(_ context.Context, t turn) { t.forgetTables() }) // an action under way may need the tables
	l.step(ctx, controller.Mastership{Master: false})
}
