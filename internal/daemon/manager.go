package daemon

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/opensm"
)

// lookEvery is how often the manager's process is looked at.
const lookEvery = 2 * time.Second

// watchManager notices that OpenSM is absent, was restarted, or is set up
// wrongly.
func (d *Daemon) watchManager(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			d.lookAtManager(ctx)
		}
	}
}

// wakeManager has an OpenSM sweep that may have failed for want of the table
// file which was installed just now: by itself it tries again after its sweep
// interval only.
func (d *Daemon) wakeManager(ctx context.Context) {
	d.mu.Lock()
	running := d.manager.running
	d.mu.Unlock()
	if !d.desk.Fresh() || !running {
		return
	}
	if err := d.signal(ctx); err != nil {
		d.log.Info("OpenSM was not told of the table file", zap.Error(err))
	}
}

// lookAtManager finds OpenSM's process and judges its settings.
func (d *Daemon) lookAtManager(ctx context.Context) {
	p, err := d.finder.Find(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		d.mu.Lock()
		d.manager.running = false
		d.mu.Unlock()
		d.missPlugin(false)
		if errors.Is(err, opensm.ErrNotRunning) {
			d.health.Raise(managerAbsent, err.Error()+": start it; forsd carries on when it writes its dump", time.Now())
		} else {
			d.health.Raise(managerAbsent, err.Error(), time.Now())
		}
		return
	}
	d.health.Clear(managerAbsent)
	d.managerFound(p)
}

// managerFound takes note of OpenSM's process, and of its settings when it is a
// new one.
func (d *Daemon) managerFound(p opensm.Process) {
	d.mu.Lock()
	known := d.manager.process
	same := d.manager.running && known.Same(p)
	d.manager.process, d.manager.running = p, true
	loaded := d.manager.settings.PluginLoaded()
	d.mu.Unlock()
	if same {
		d.missPlugin(loaded)
		return
	}
	d.log.Info("OpenSM is running", zap.Int("pid", p.PID), zap.Strings("command", p.Cmdline))
	settings, err := opensm.LoadSettings(&p, d.cfg.OpenSM.Conf)
	if err != nil {
		d.log.Warn("OpenSM's settings", zap.Error(err))
	}
	lanes := 0
	if v := d.board.Latest(); v != nil && v.Tree != nil {
		lanes = v.Tree.Lanes
	}
	d.mu.Lock()
	d.manager.settings, d.manager.lmc = settings, settings.LMC
	d.mu.Unlock()
	var found []health.Finding
	for _, w := range settings.Check(d.want(lanes)) {
		found = append(found, health.Finding{Code: w.Code, Text: w.Text})
	}
	d.health.Set("opensm", found, time.Now())
	d.missPlugin(settings.PluginLoaded())
	go d.tell(controller.TablesDoubted{})
}

// followLog reads OpenSM's log for warnings, and follows it when the manager
// turns out to log elsewhere. Nothing waits for a line of it.
func (d *Daemon) followLog(ctx context.Context) error {
	for ctx.Err() == nil {
		path := d.logPath()
		follow, cancel := context.WithCancel(ctx)
		go func() {
			tick := time.NewTicker(lookEvery)
			defer tick.Stop()
			for d.logPath() == path {
				select {
				case <-tick.C:
				case <-follow.Done():
					return
				}
			}
			cancel()
		}()
		l := opensm.LogFollower{Path: path, Event: d.logged, Report: func(err error) {
			if err == nil {
				d.health.Clear(logUnreadable)
				return
			}
			d.health.Raise(logUnreadable, err.Error(), time.Now())
		}}
		_ = l.Run(follow) // ends with its context
		cancel()
	}
	return nil
}

// logPath is where OpenSM logs, as far as is known.
func (d *Daemon) logPath() string {
	if d.cfg.OpenSM.Log != "" {
		return d.cfg.OpenSM.Log
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.manager.settings.LogFile != "" {
		return d.manager.settings.LogFile
	}
	return opensm.DefaultLog
}

// logged turns a line of OpenSM's log into a warning, or ends one.
func (d *Daemon) logged(e opensm.LogEvent) {
	raise, ends := e.Effect()
	for _, code := range ends {
		d.health.Clear(code)
	}
	toldByPlugin := d.pluginLeads() && (raise == opensm.Standby || raise == opensm.EngineFallback)
	if raise != "" && !toldByPlugin && (raise != opensm.EngineFallback || !d.board.OwnRoutes()) {
		d.health.Raise(raise, "OpenSM's log says: "+e.Text, time.Now())
	}
	if e.Fallback() {
		go d.tell(controller.TablesDoubted{}) // the next read-back mends them
	}
}

// tell gives the controller an event from outside the loop.
func (d *Daemon) tell(e controller.Event) {
	select {
	case d.answers <- e:
	case <-d.stopped:
	}
}

// want is what forsd needs of OpenSM's settings.
func (d *Daemon) want(lanes int) opensm.Want {
	c := &d.cfg.OpenSM
	socket := c.Plugin.Socket
	if c.Plugin.Enabled == config.EnabledOff {
		socket = ""
	}
	return opensm.Want{Socket: socket, LFTsFile: c.LFTsFile, DumpDir: c.DumpDir, CacheDir: c.CacheDir, Lanes: lanes, LMC: int(c.LMC)}
}

// lmc is the LMC of host ports where no guid2lid tells it.
func (d *Daemon) lmc() uint8 {
	if d.cfg.OpenSM.LMC != config.AutoLMC {
		return uint8(d.cfg.OpenSM.LMC)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.manager.lmc
}
