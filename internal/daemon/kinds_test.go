package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// bench is a daemon with a running loop. The test plays its manager.
type bench struct {
	*testing.T
	d    *Daemon
	dir  string
	f    *topology.Fabric // the present fabric
	own  *lft.Tables      // made by the manager itself; nil if it loads the file
	stop func()
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, dir: t.TempDir()}
	b.start()
	return b
}

// start starts a daemon on the state of the previous one.
func (b *bench) start() {
	b.Helper()
	d := readable(daemonIn(b.T, b.dir))
	d.cfg.Planning.OtherFabrics = config.OtherLiquid
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(b.Context())
	go func() { d.run(ctx); close(d.inbox.stopped); close(ended) }()
	b.d = d
	b.stop = func() {
		cancel()
		<-ended
		d.work.Wait()
	}
	b.Cleanup(b.stop)
}

// restart stops the daemon between two instructions and starts another one.
func (b *bench) restart() {
	b.Helper()
	b.stop()
	ok(b.T, b.d.store.Close())
	b.start()
	b.sweep()
}

// sweep plays a sweep of the manager, which routes fabrics other than trees itself, and
// dumps.
func (b *bench) sweep() {
	b.Helper()
	if b.own != nil {
		program(b.T, b.d, b.own)
	}
	ok(b.T, b.d.inbox.call(b.Context(), func(ctx context.Context, _ *loop) { b.d.dumpSeen(ctx, dump(b.f)) }))
}

// shows lets the manager find a fabric, and waits until the daemon has completed its
// work.
func (b *bench) shows(f *topology.Fabric, own *lft.Tables) {
	b.Helper()
	b.f, b.own = f, own
	b.sweep()
	b.rests()
}

// rests plays the manager until the daemon is at rest.
func (b *bench) rests() {
	b.Helper()
	for {
		var s controller.State
		weighed := true
		ok(b.T, b.d.inbox.call(b.Context(), func(_ context.Context, l *loop) {
			s = b.d.core.State()
			if v := l.state.Now().Latest; v != nil && v.AtOnce {
				weighed = l.weighed == v.ID
			}
		}))
		switch s {
		case controller.Idle, controller.Suspect:
			if weighed {
				return
			}
		case controller.Sweeping:
			b.sweep()
		case controller.Backoff:
			b.Fatalf("backing off: %v", b.d.health.List(time.Now()))
		}
		time.Sleep(time.Millisecond)
	}
}

// holds checks every plan in force on the tables in the switches.
func (b *bench) holds(after string) {
	b.Helper()
	b.rests()
	tables, err := b.held()
	ok(b.T, err)
	e, v := b.d.state.Now().Epoch, b.d.state.Now().Latest
	if v.Fabric.Hash() != b.f.Hash() || e.Report.TopologyHash != b.f.Hash() {
		b.Errorf("after %s the plan in force is for fabric %s, the fabric is %s", after, e.Report.TopologyHash, b.f.Hash())
	}
	if b.own != nil {
		n := e.Plan.Servers()
		holdsOn(b.T, e, b.f, tables, n*(n-1))
	} else if err := v.Carries(tables, e.Plan, nil); err != nil {
		b.Errorf("after %s the plan in force does not hold: %v", after, err)
	}
	for _, j := range b.d.state.Now().Jobs {
		n := j.Plan.Servers()
		if v.JobsOnRoutes() {
			holdsOn(b.T, &store.Epoch{Plan: j.Plan}, b.f, tables, n*(n-1))
		} else {
			holds(b.T, v, j, tables)
		}
	}
	for _, w := range b.d.health.List(time.Now()) {
		// This process is the manager, so OpenSM's settings cannot be found.
		if w.Severity == health.Critical && !slices.ContainsFunc(opensm.Kinds(), func(k health.Warnable) bool { return k.Code == w.Code }) || strings.HasPrefix(w.Code, "job-") {
			b.Errorf("after %s: %s: %s", after, w.Code, w.Text)
		}
	}
}

// held returns the tables in the switches.
func (b *bench) held() (*lft.Tables, error) {
	text, err := os.ReadFile(b.d.cfg.OpenSM.LFTsFile)
	if err != nil {
		return nil, err
	}
	return lft.ReadBytes(text)
}

// another returns a dragonfly with the hosts of the tree and other switches.
func another(hosts int) (*topology.Fabric, *lft.Tables) {
	f := fabgen.Dragonfly(4, 3, hosts)
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			f.Nodes[i].GUID += 0x7000000
			f.Nodes[i].Ports[0].GUID = f.Nodes[i].GUID
		}
	}
	f, err := topology.NewFabric(f.Nodes, f.SM)
	if err != nil {
		panic(err)
	}
	return f, shortest(f)
}

// TestKindsOfFabrics requests everything that changes a plan, in a tree, in a dragonfly
// with the same hosts, and in the tree again. Every published plan holds on the present
// tables and fabric.
func TestKindsOfFabrics(t *testing.T) {
	b := newBench(t)
	tree := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 4, LMC: 2})
	ring, own := another(1)
	for round, kind := range []controller.Kind{controller.FatTree, controller.OwnRoutes, controller.FatTree, controller.OwnRoutes} {
		where := fmt.Sprintf("%s, round %d: ", kind, round)
		if kind == controller.OwnRoutes {
			b.shows(ring, own)
		} else {
			b.shows(tree, nil)
		}
		b.holds(where + "a change of the fabric")
		if st := b.d.backend.Status(); st.FabricKind != kind.String() || b.d.backend.Topology().Kind != kind.String() {
			t.Errorf("%sthe status says %s", where, st.FabricKind)
		}
		for _, x := range []struct {
			what string
			do   func() error
		}{
			{"reroute", b.reroute},
			{"rollback", b.rollback},
			{"reroute after a rollback", b.reroute},
			{"what-if", func() error {
				_, err := b.d.backend.WhatIf(t.Context(), api.WhatIf{})
				var refused *api.Error
				if kind == controller.OwnRoutes && errors.As(err, &refused) && strings.Contains(refused.Text, "not a fat tree") {
					return nil
				}
				return err
			}},
			{"create job", func() error {
				_, err := backend.Jobs{Parts: &b.d.backend.Parts}.CreateJob(t.Context(), api.JobRequest{Hosts: names(round, round+3)})
				return err
			}},
			{"restart of OpenSM", func() error { b.d.inbox.tell(controller.TablesDoubted{}); b.rests(); b.sweep(); return nil }},
			{"restart of forsd", func() error { b.restart(); return nil }},
		} {
			if err := x.do(); err != nil {
				t.Errorf("%s%s: %v", where, x.what, err)
			}
			b.holds(where + x.what)
		}
	}
	if n := len(b.d.state.Now().Jobs); n != 4 {
		t.Errorf("%d jobs, want 4", n)
	}
}

// reroute requests a reroute and plays the manager.
func (b *bench) reroute() error {
	done := make(chan error, 1)
	go func() {
		_, err := b.d.backend.Reroute(b.Context())
		done <- err
	}()
	for {
		select {
		case err := <-done:
			return err
		default:
			b.rests()
		}
	}
}

// rollback requests a rollback to every epoch. Some are refused, but the plan in force
// afterwards must be a rollback.
func (b *bench) rollback() error {
	epochs := b.d.store.Disk.Epochs.List()
	var last error
	for _, e := range epochs {
		if _, err := b.d.backend.Rollback(b.Context(), e.Epoch); err == nil {
			b.holds(fmt.Sprintf("rollback to epoch %d", e.Epoch))
		} else {
			last = err
		}
	}
	if now := b.d.state.Now().Epoch; now.RollbackOf == 0 {
		return fmt.Errorf("no epoch of %d could be rolled back to: %w", len(epochs), last)
	}
	return nil
}

// TestMassLossInEachKind removes most hosts. The fabric must be doubted in each kind.
func TestMassLossInEachKind(t *testing.T) {
	ring, own := another(2)
	for _, x := range []struct {
		name string
		f    *topology.Fabric
		own  *lft.Tables
	}{{"tree", fabgen.Generate(fabgen.Spec{Spines: 6, Leaves: 4, LMC: 3}), nil}, {"other", ring, own}} {
		t.Run(x.name, func(t *testing.T) {
			b := newBench(t)
			b.shows(x.f, x.own)
			b.holds("the start")
			before := b.d.state.Now().Epoch
			few, last := x.f.Clone(), 0
			for i := range few.Nodes {
				n := 0
				if _, err := fmt.Sscanf(few.Nodes[i].Name, "Hca%d", &n); err == nil && (n%2 == 0 || n == 1) {
					few.Disconnect(topology.PortRef{Node: int32(i), Port: 1})
					last++
				}
			}
			if last != 13 {
				t.Fatalf("%d hosts have vanished", last)
			}
			b.shows(few, x.own)
			if !raised(b.d, controller.FabricIncomplete, "54 % of the servers") || b.d.state.Now().Epoch != before {
				t.Errorf("epoch %d, warnings %v", b.d.state.Now().EpochNumber(), b.d.health.List(time.Now()))
			}
			ok(t, b.reroute()) // now the fabric is believed
			b.holds("a reroute")
			if n := b.d.state.Now().Epoch.Plan.Servers(); n != 11 {
				t.Errorf("%d servers, want 11", n)
			}
		})
	}
}

// TestHostWithoutLID checks that the other hosts of a healthy tree keep the optimal plan
// while one host has no LID yet. The daemon must not fall back to the manager's routes.
func TestHostWithoutLID(t *testing.T) {
	for _, first := range []bool{false, true} {
		b := newBench(t)
		whole := fabgen.Generate(fabgen.Spec{Spines: 6, Leaves: 4, LMC: 3})
		lacks := whole.Clone()
		lacks.At(topology.PortRef{Node: lacks.Find(fabgen.HostGUID), Port: 1}).LID = 0
		if !first {
			b.shows(whole, nil)
			b.holds("the start")
		}
		b.shows(lacks, nil)
		b.holds("a host without an LID")
		if r := b.d.state.Now().Epoch.Report; r.Engine == "liquid" || r.Servers != 23 || r.Gap != 0 {
			t.Errorf("first %t: engine %s, %d servers, gap %d", first, r.Engine, r.Servers, r.Gap)
		}
		if !raised(b.d, topology.PartlyCovered, "Hca0000 port 1 has no LID yet") {
			t.Errorf("first %t: warnings %v", first, b.d.health.List(time.Now()))
		}
		b.shows(whole, nil)
		b.holds("its LID was given")
		if n := b.d.state.Now().Epoch.Report.Servers; n != 24 {
			t.Errorf("first %t: %d servers in the end", first, n)
		}
		b.stop()
	}
}

// TestMuchUnreachable checks that a first fabric is refused if its plan would leave out
// more than the limit. If a plan is in force, it stays, and a critical warning is raised.
func TestMuchUnreachable(t *testing.T) {
	whole := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	apart := whole.Clone() // each leaf shares no lane with one of the others
	for leaf, dead := range [][]int{{2, 3}, {0, 1}, {1, 3}, {0, 2}} {
		for _, lane := range dead {
			apart.Disconnect(topology.PortRef{Node: apart.Find(fabgen.LeafGUID + ib.GUID(leaf)), Port: uint8(4 + 1 + lane)})
		}
	}
	b := newBench(t)
	if err := os.WriteFile(b.d.cfg.OpenSM.LFTsFile, nil, 0o644); err != nil { // the switches have no entries
		t.Fatal(err)
	}
	b.shows(apart, nil)
	if b.d.state.Now().Epoch != nil || !raised(b.d, controller.FabricRefused, "%") {
		t.Errorf("a first start: epoch %d, warnings %v", b.d.state.Now().EpochNumber(), b.d.health.List(time.Now()))
	}
	b.shows(whole, nil)
	b.holds("the whole tree")
	before := b.d.state.Now().Epoch
	b.f = apart
	b.sweep()
	for n := 0; !raised(b.d, controller.PlanFailed, "%"); n++ {
		var s controller.State
		ok(t, b.d.inbox.call(b.Context(), func(_ context.Context, _ *loop) { s = b.d.core.State() }))
		if s == controller.Sweeping {
			b.sweep()
		}
		if n > 3000 {
			t.Fatalf("state %v, warnings %v", s, b.d.health.List(time.Now()))
		}
		time.Sleep(time.Millisecond)
	}
	if b.d.state.Now().Epoch != before {
		t.Errorf("epoch %d takes the place of the one before", b.d.state.Now().EpochNumber())
	}
}
