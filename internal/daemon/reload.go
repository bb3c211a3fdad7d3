package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/view"
)

// This file applies changed settings to the daemon.

// Configuration sets the file that the configuration was read from, for Reload. It must be
// called before Run.
func (d *Daemon) Configuration(f config.File) { d.settings.File = f }

// Reload reads the configuration again, and applies the settings that may change while
// forsd runs. Errors are logged and raise a warning.
func (d *Daemon) Reload(ctx context.Context) {
	d.notify(systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec())
	_, _ = d.backend.Reload(ctx, false)
	d.notify(systemd.SdNotifyReady)
}

// reloadOn reloads the configuration at each signal, until ctx ends.
func (d *Daemon) reloadOn(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-signals:
			d.Reload(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// reconfigure applies settings unless the fabric cannot be planned with them. If other
// hosts take part under the new settings, the fabric is a different one.
func (t turn) reconfigure(ctx context.Context, next *config.Config, take func()) error {
	was := t.state.Now().Latest
	var v *view.View
	if was != nil && t.loop.raw != nil {
		var err error
		if v, err = t.loop.fitBy(t.loop.raw, &next.Planning); err != nil {
			return fmt.Errorf("by these settings the fabric cannot be used: %w", err)
		}
	}
	take()
	t.loop.step(ctx, controller.Configured{Settings: controllerSettings(next)})
	if v != nil && v.ID != was.ID {
		v.SeenAt, v.Complete, v.Why = time.Now(), was.Complete, "the configuration was reloaded"
		t.loop.showAgain(ctx, v)
	}
	return nil
}
