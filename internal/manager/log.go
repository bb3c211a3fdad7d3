package manager

import (
	"cmp"
	"context"
	"os"
	"slices"
	"time"

	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/topology"
)

// FollowLog reads OpenSM's log for warnings, and follows the log to another file if the manager
// uses one. No other work waits for it.
func (m *Manager) FollowLog(ctx context.Context) error {
	for ctx.Err() == nil {
		path := m.logPath()
		follow, cancel := context.WithCancel(ctx)
		go func() {
			tick := time.NewTicker(lookEvery)
			defer tick.Stop()
			for m.logPath() == path {
				select {
				case <-tick.C:
				case <-follow.Done():
					return
				}
			}
			cancel()
		}()
		l := opensm.LogFollower{Path: path, Poll: logEvery, Event: m.Logged, Report: func(err error) { m.report(LogUnreadable, err) }}
		_ = l.Run(follow) // it ends with its context
		cancel()
	}
	return nil
}

// logPath returns the path of OpenSM's log, as far as known.
func (m *Manager) logPath() string {
	return cmp.Or(m.Config.Log, m.known().settings.LogFile, opensm.DefaultLog)
}

// Logged raises or clears a warning for a line of OpenSM's log, and passes on lines about
// traps.
func (m *Manager) Logged(e opensm.LogEvent) {
	if e.Kind == opensm.TrapReceived || e.Kind == opensm.TrapTold {
		m.TrapLogged(e.LID, e.Kind == opensm.TrapTold)
		return
	}
	raise, ends := e.Effect()
	for _, code := range ends {
		m.State.Health.Clear(code)
	}
	toldByPlugin := m.PluginConnected() && (raise == opensm.Standby || raise == opensm.EngineFallback)
	if raise != "" && !toldByPlugin && !(m.Watched && slices.Contains(ownWays, raise)) && (raise != opensm.EngineFallback || !m.State.Now().OwnRoutes()) {
		m.State.Health.Raise(raise, "OpenSM's log says: "+e.Text, time.Now())
	}
	if e.Fallback() {
		go m.Doubt() // the next read-back corrects the tables
	}
}

// ownWays lists warnings about an OpenSM that routes by itself, as one that is only watched
// does.
var ownWays = []string{opensm.EngineFallback, opensm.FileRejected, opensm.NoTables}

// defaultNodeNames is the path of the node-name map for OpenSM and the diagnostic tools of some
// distributions.
const defaultNodeNames = "/etc/opensm/ib-node-name-map"

// mostNames is the maximum size of a node-name map.
const mostNames = 16 << 20

// NodeNames returns the node-name map named in OpenSM's settings, or the one at the default
// path, or nil. It is read each time, because it is small and may change.
func (m *Manager) NodeNames() topology.NodeNames {
	path := cmp.Or(m.known().settings.NodeNames, defaultNodeNames)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > mostNames {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil // names are optional; GUIDs suffice
	}
	return topology.ReadNodeNames(data)
}
