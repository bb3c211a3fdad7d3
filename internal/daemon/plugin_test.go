package daemon

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm/plugin"
	"github.com/forsd/forsd/topology"
)

// sweeper plays OpenSM with the plugin for a daemon with a running loop. The switches
// hold the tables of its last sweep.
type sweeper struct {
	*site
	switches   string // a file with their tables
	generation uint64
}

// joined starts a daemon and connects a plugin in a master that has brought the fabric
// up. The daemon requests sweeps by SIGHUP, because the socket has no other end.
func joined(t *testing.T, f *topology.Fabric) *sweeper {
	t.Helper()
	select { // left by an earlier test
	case <-hangups:
	default:
	}
	d := readable(newDaemon(t))
	if _, err := d.manager.Listen(d.inbox.pluginEvent, d.tablesAsked); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	s := &sweeper{site: &site{Daemon: d, t: t, ctx: ctx, cancel: cancel}, switches: filepath.Join(t.TempDir(), "switches")}
	d.cfg.OpenSM.DumpCommand = []string{"cat", s.switches}
	ended := make(chan struct{})
	go func() { d.run(ctx); close(d.inbox.stopped); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended; d.work.Wait() })
	s.says(plugin.Connected{At: time.Now(), Peer: plugin.Peer{Deadline: time.Second}}, plugin.Mastership{State: plugin.Master})
	s.up(f)
	<-hangups
	if _, err := s.sweep(f); err != nil {
		t.Fatal(err)
	}
	s.up(f)
	s.settles(func(e *store.Epoch, _ *view.View) bool { return e.Epoch == 1 })
	return s
}

func (s *sweeper) says(events ...plugin.Event) {
	for _, e := range events {
		s.inbox.plugin <- e
	}
}

// sight returns a fabric as the plugin sends it.
func (s *sweeper) sight(f *topology.Fabric) plugin.Sight {
	s.generation++
	return plugin.Sight{Generation: s.generation, Fabric: f}
}

func (s *sweeper) up(f *topology.Fabric) { s.says(plugin.SubnetUp{At: time.Now(), Sight: s.sight(f)}) }

// sweep plays a sweep that finds a fabric and asks for its tables.
func (s *sweeper) sweep(f *topology.Fabric) (*lft.Tables, error) {
	sight := s.sight(f)
	s.says(plugin.SweepStart{At: time.Now()}, plugin.Discovered{At: time.Now(), Sight: sight})
	t, err := s.tablesAsked(s.ctx, plugin.Request{Number: s.generation, Sight: sight})
	result := plugin.Declined
	if err == nil {
		result = plugin.Installed
		var text bytes.Buffer
		ok(s.t, t.Write(&text, nil), os.WriteFile(s.switches, text.Bytes(), 0o644))
	}
	s.says(plugin.Outcome{Result: result}, plugin.RoutingDone{Own: err == nil, Engine: "fors"})
	return t, err
}

// TestSweepByPlugin removes and restores a cable within OpenSM's sweeps. The plan is
// published before the tables on the loss, and after them on the repair.
func TestSweepByPlugin(t *testing.T) {
	healthy := fabric(4, 4)
	s := joined(t, healthy)
	cut := lacking(healthy, 4, 1, 2)
	tables, err := s.sweep(cut)
	ok(t, err)
	if e, v := s.state.Now().Epoch, s.state.Now().Latest; e.Epoch != 2 || e.Fabric != v.ID {
		t.Errorf("the tables are given while epoch %d is in force", e.Epoch)
	}
	want, err := tablesOf(s.state.Now().Latest)
	ok(t, err, lft.Compare(want, tables, lft.LIDs(cut)))
	s.up(cut)
	s.settles(func(e *store.Epoch, v *view.View) bool { return e.Epoch == 2 && len(v.Down) == 1 })

	if _, err := s.sweep(healthy); err != nil {
		t.Fatal(err)
	}
	if e := s.state.Now().Epoch; e.Epoch != 2 {
		t.Errorf("epoch %d is in force before the sweep has ended", e.Epoch)
	}
	s.up(healthy)
	s.settles(func(e *store.Epoch, v *view.View) bool { return e.Epoch == 3 && len(v.Down) == 0 })
	if _, err := s.sweep(healthy); err != nil { // nothing has changed: the tables are ready
		t.Error(err)
	}
	s.up(healthy)
	s.settles(func(e *store.Epoch, _ *view.View) bool { return e.Epoch == 3 })
}

// TestSweepMissed continues a sweep without forsd's tables, because they are late or do
// not exist. forsd requests another sweep or waits, and warns until then.
func TestSweepMissed(t *testing.T) {
	healthy := fabric(4, 4)
	s := joined(t, healthy)
	cut := lacking(healthy, 4, 1, 2)
	sight := s.sight(cut)
	s.says(plugin.SweepStart{At: time.Now()})
	late := errors.New("the deadline")
	ctx, cancel := context.WithCancelCause(s.ctx)
	cancel(late)
	if _, err := s.tablesAsked(ctx, plugin.Request{Sight: sight}); !errors.Is(err, late) {
		t.Errorf("late: %v", err)
	}
	var text bytes.Buffer // the table file is that of the previous fabric
	ok(t, s.desk.InSwitches().Write(&text, nil), os.WriteFile(s.switches, text.Bytes(), 0o644))
	s.says(plugin.Outcome{Result: plugin.Late}, plugin.RoutingDone{Engine: "file"}, plugin.SubnetUp{At: time.Now(), Sight: sight})
	<-hangups // another sweep is requested
	if !s.warns(pluginUnused) {
		t.Error("no warning tells that a sweep did without")
	}
	if _, err := s.sweep(cut); err != nil {
		t.Fatal(err)
	}
	s.up(cut)
	s.settles(func(_ *store.Epoch, v *view.View) bool { return len(v.Down) == 1 })
	if s.warns(pluginUnused) {
		t.Error("the warning stays")
	}

	// If most hosts are missing, forsd makes tables only when that lasts.
	empty := healthy.Clone()
	for i := range empty.Nodes {
		if empty.Nodes[i].Kind == topology.Adapter && i%4 > 0 {
			empty.Disconnect(topology.PortRef{Node: int32(i), Port: 1})
		}
	}
	if _, err := s.sweep(empty); err == nil {
		t.Error("tables were made for a fabric that is not believed")
	}
	if _, err := s.sweep(&topology.Fabric{}); err == nil {
		t.Error("tables were made for no fabric")
	}
}

// warns reports whether a warning is in force after the events so far.
func (s *site) warns(code string) bool {
	s.t.Helper()
	ok(s.t, s.inbox.call(s.ctx, func(_ context.Context, _ *loop) {}))
	for _, w := range s.health.List(time.Now()) {
		if w.Code == code {
			return true
		}
	}
	return false
}

// TestStandbyPlansAlone checks a daemon whose manager is not the master. It plans the
// fabric that it sees, but publishes, writes and sends nothing. A request for tables
// makes the manager the master.
func TestStandbyPlansAlone(t *testing.T) {
	healthy := fabric(4, 4)
	s := joined(t, healthy)
	s.says(plugin.Mastership{State: plugin.Standby})
	if !s.warns(standby.ManagerStandby) {
		t.Error("no warning tells of the other manager")
	}
	cut := lacking(healthy, 4, 1, 2)
	s.says(plugin.Discovered{At: time.Now(), Sight: s.sight(cut)})
	s.warns("") // the loop has handled the event
	s.betweenEvents(func() bool { return s.core.State() == controller.Idle })
	if e := s.state.Now().Epoch; e.Epoch != 1 {
		t.Errorf("epoch %d was published beside a standby manager", e.Epoch)
	}
	if _, err := s.Daemon.backend.Reroute(s.ctx); err == nil {
		t.Error("a reroute was accepted")
	}
	if _, err := s.sweep(cut); err != nil {
		t.Fatal(err)
	}
	s.up(cut)
	s.settles(func(e *store.Epoch, v *view.View) bool { return e.Epoch == 2 && len(v.Down) == 1 })
	if s.warns(standby.ManagerStandby) {
		t.Error("the warning stays")
	}
}

// betweenEvents waits for a condition that it checks between events.
func (s *site) betweenEvents(good func() bool) {
	s.t.Helper()
	for met := false; !met; {
		ok(s.t, s.inbox.call(s.ctx, func(_ context.Context, _ *loop) { met = good() }))
	}
}
