package manager

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
)

// pluginPatience is how long forsd waits for the plugin to connect, or to come back, before it
// subscribes to traps.
const pluginPatience = 3 * time.Second

// Listen binds the plugin's socket and returns its server, nil if the plugin is disabled or
// optional. Its events and questions go to the two functions.
func (m *Manager) Listen(event func(plugin.Event), tables func(context.Context, plugin.Request) (*lft.Tables, error)) (func(context.Context) error, error) {
	c := &m.Config.Plugin
	if c.Enabled == config.EnabledOff || m.Config.Remote() {
		return nil, nil
	}
	s, err := plugin.Listen(plugin.Config{Path: c.Socket, Tables: tables, Event: event,
		Complain: func(err error) { m.Log.Warn("OpenSM's plugin", zap.Error(err)) }})
	if err != nil && c.Enabled == config.EnabledAuto {
		m.State.Health.Raise(PluginDeaf, err.Error()+"; forsd works by OpenSM's files", time.Now())
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m.server = s
	return s.Serve, nil
}

// PluginCame records that the plugin is connected: from now on its reports count.
func (m *Manager) PluginCame(e plugin.Connected) {
	m.Log.Info("OpenSM's plugin is connected", zap.Int("pid", e.Peer.PID), zap.String("opensm", e.Peer.Version), zap.Duration("deadline", e.Peer.Deadline))
	m.learn(func(k *known) { k.link = link{connected: true, peer: e.Peer, since: e.At} })
	m.State.Health.Clear(PluginMissing)
}

// PluginLeft records that the plugin is disconnected: from now on the files count.
func (m *Manager) PluginLeft(e plugin.Disconnected) {
	m.Log.Info("OpenSM's plugin has gone", zap.Error(e.Err))
	m.learn(func(k *known) { k.link = link{since: e.At} })
}

// SetState records the manager's state as reported by the plugin.
func (m *Manager) SetState(s plugin.State) {
	m.learn(func(k *known) { k.link.state = s })
	m.Log.Info("OpenSM's state", zap.Stringer("state", s))
}

// PluginConnected reports whether the plugin is connected.
func (m *Manager) PluginConnected() bool { return m.known().link.connected }

// Deadline is how long OpenSM waits for tables.
func (m *Manager) Deadline() time.Duration { return m.known().link.peer.Deadline }

// BringsTraps reports whether the plugin delivers traps, or may do so soon.
func (m *Manager) BringsTraps() bool {
	l, away := m.known().link, max(time.Since(m.Started), 0)
	if !l.since.IsZero() {
		away = time.Since(l.since)
	}
	return l.connected || m.server != nil && away <= pluginPatience
}

// missPlugin warns if the plugin should be connected and is not. loaded means that OpenSM
// runs and should load it.
func (m *Manager) missPlugin(loaded bool) {
	c := &m.Config.Plugin
	if m.server == nil || m.PluginConnected() || c.Enabled == config.EnabledAuto && !loaded {
		m.State.Health.Clear(PluginMissing)
		return
	}
	m.State.Health.Raise(PluginMissing, "OpenSM's plugin has not connected to "+c.Socket+"; forsd works by OpenSM's files: see OpenSM's log for "+opensm.PluginFile+", and forsctl doctor", time.Now())
}
