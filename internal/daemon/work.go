package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/board"
	"github.com/forsd/forsd/internal/delivery"
	"github.com/forsd/forsd/internal/press"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
	"github.com/forsd/forsd/opensm/umad"
)

// This file carries the controller's actions out. Its functions run one at a
// time, outside the loop; what they share with the API is guarded by d.mu.

// signal has the manager sweep.
func (d *Daemon) signal(ctx context.Context) error {
	switch d.desk.Load() {
	case delivery.ThisSweep:
		return nil
	case delivery.LastSweep:
		d.work.Go(func() { _ = d.call(d.life, d.seenAgain) }) // nobody waits where the daemon ends
		return nil
	case delivery.NextSweep:
		if err := d.manager.Resweep(); !errors.Is(err, plugin.ErrNotConnected) {
			return err
		}
	}
	if d.cfg.OpenSM.Remote() {
		return d.probe.Install(ctx)
	}
	return d.manager.Signal(ctx)
}

// newReader is what reads the switches. It lasts as long as the process, so that the local
// port stays open.
func (d *Daemon) newReader() *opensm.Switches {
	c := &d.cfg.OpenSM
	return &opensm.Switches{Port: string(c.Umad), Limits: umad.Options{Window: c.UmadWindow},
		Command: opensm.ReadBack{Command: c.DumpCommand, Timeout: c.ReadbackTimeout}, Note: d.readsBy}
}

// readsBy logs how the switches are read from now on.
func (d *Daemon) readsBy(err error) {
	if err == nil {
		d.log.Info("tables are read out of the switches directly")
		return
	}
	d.log.Info("tables are read out of the switches by a command", zap.Strings("command", d.cfg.OpenSM.DumpCommand), zap.NamedError("because", err))
}

// readBack reads the tables out of the switches and compares them with those of
// the fabric. The plan that follows is verified on what was read.
func (d *Daemon) readBack(ctx context.Context, a controller.ReadBack) controller.Event {
	v := d.board.View(a.Fabric)
	if v == nil {
		return controller.ReadBackDone{Err: press.ErrForgotten.Error()}
	}
	swept := time.Now()
	d.desk.Reading()
	got, whole, err := d.reader().Tables(ctx, v.Fabric)
	unwritten := d.desk.Settle()
	if unwritten != nil {
		unwritten = fmt.Errorf("OpenSM has the tables, but the file that it loads where forsd does not answer has not: %w", unwritten)
	}
	if err != nil {
		return controller.ReadBackDone{Err: err.Error()}
	}
	if a.Kind == controller.OwnRoutes {
		d.desk.Read(got, false) // none were ordered
		d.markRead(v, swept)
		return controller.ReadBackDone{Match: true}
	}
	want, err := v.Route(ctx, a.Hold, d.press.Planning)
	if err != nil {
		return controller.ReadBackDone{Err: err.Error()}
	}
	if !whole {
		if lid := lft.FillUnread(got, want.Tables); lid != 0 {
			d.log.Debug("the entries of one LID are beyond what dump_fts reads, and are taken as planned", zap.Uint16("lid", uint16(lid)))
		}
	}
	err = lft.Compare(want.Tables, got, lft.LIDs(v.Fabric))
	d.desk.Read(got, err == nil)
	if err != nil {
		return controller.ReadBackDone{Difference: err.Error()}
	}
	d.markRead(v, swept)
	return controller.ReadBackDone{Match: true, Unwritten: controller.Text(unwritten)}
}

// markRead notes that the tables of a sweep have been read.
func (d *Daemon) markRead(v *view.View, swept time.Time) {
	d.board.Mark(v, swept, func(t *board.Times) *time.Time { return &t.Swept })
	d.board.Mark(v, time.Now(), func(t *board.Times) *time.Time { return &t.ReadBack })
}
