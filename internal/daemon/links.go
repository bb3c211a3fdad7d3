package daemon

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/view"
)

// This file shows the link state what happens, and has done what it asks for.

// observe tells the link state what happened and begins what it asks for. It returns
// the fabric to believe from now on, nil where that is as before.
func (d *Daemon) observe(ctx context.Context, e linkstate.Event) (believe *linkstate.Believe) {
	for _, a := range d.links.Step(time.Now(), e) {
		d.log.Debug("links", zap.Stringer("action", a))
		switch a := a.(type) {
		case linkstate.Believe:
			believe = &a
		case linkstate.Read:
			f := d.links.Shown()
			d.work.Go(func() { d.probe.Read(ctx, f, a) })
		case linkstate.Discover:
			d.work.Go(func() { d.probe.Discover(ctx, a) })
		}
	}
	return believe
}

// switchesSaid takes in what switches said.
func (d *Daemon) switchesSaid(ctx context.Context, first linkstate.Answer) {
	b := d.observe(ctx, d.probe.Said(first))
	if b == nil {
		return
	}
	v, err := d.fit(b.Fabric)
	if err != nil {
		d.log.Debug("the fabric without what a trap told of cannot be used", zap.Error(err))
		return
	}
	v.SeenAt, v.Complete = b.Seen, time.Now()
	d.take(ctx, v, false)
}

// heldBack tells the link state at which switches there are cables that are held back.
func (d *Daemon) heldBack(ctx context.Context, lanes []controller.Lane) {
	var e linkstate.HeldBack
	for _, c := range d.board.Latest().Cables(lanes) {
		e.Switches = append(e.Switches, c.Leaf.GUID, c.Spine.GUID)
	}
	d.observe(ctx, e)
}

// sight is the view of the fabric to believe, where a sweep shows one.
func (d *Daemon) sight(ctx context.Context, e linkstate.Shown) (*view.View, error) {
	b := d.observe(ctx, e)
	v, err := d.fit(b.Fabric)
	if err != nil {
		return nil, err
	}
	v.SeenAt, v.Complete = b.Seen, time.Now()
	return v, nil
}
