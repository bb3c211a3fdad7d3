package daemon

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/view"
)

// This file passes events to the link state and carries out its actions.

// observe passes an event to the link state and starts its actions. It returns the new
// fabric to believe, or nil if that has not changed.
func (l *loop) observe(ctx context.Context, e linkstate.Event) (believe *linkstate.Believe) {
	for _, a := range l.links.Step(time.Now(), e) {
		l.log.Debug("links", zap.Stringer("action", a))
		switch a := a.(type) {
		case linkstate.Believe:
			believe = &a
		case linkstate.Read:
			f := l.links.Shown()
			l.work.Go(func() { l.probe.Read(ctx, f, a) })
		case linkstate.Discover:
			l.work.Go(func() { l.probe.Discover(ctx, a) })
		}
	}
	return believe
}

// switchesSaid handles answers of switches.
func (l *loop) switchesSaid(ctx context.Context, first linkstate.Answer) {
	b := l.observe(ctx, l.probe.PortsRead(first))
	if b == nil {
		return
	}
	v, err := l.view(b)
	if err != nil {
		l.log.Debug("the fabric without what a trap told of cannot be used", zap.Error(err))
		return
	}
	l.show(ctx, v, false)
}

// heldBack reports the switches at bouncing cables to the link state.
func (l *loop) heldBack(ctx context.Context, lanes []controller.Lane) {
	var e linkstate.HeldBack
	for _, c := range l.state.Now().Latest.Cables(lanes) {
		e.Switches = append(e.Switches, c.Lower.GUID, c.Upper.GUID)
	}
	l.observe(ctx, e)
}

// view returns the view of a fabric to believe.
func (l *loop) view(b *linkstate.Believe) (*view.View, error) {
	v, err := l.fit(b.Fabric)
	if err != nil {
		return nil, err
	}
	v.SeenAt, v.Complete = b.Seen, time.Now()
	l.raw = b.Fabric
	return v, nil
}
