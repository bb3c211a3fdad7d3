package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// openSMScript is a process named opensm that writes a dump at its start and at every
// SIGHUP, unless a file "deaf" exists. The switches hold the tables in the table file, or
// in a file "own", and cannot be read while a file "hang" exists.
const openSMScript = `trap '[ -e deaf ] || cat fabric.lst > opensm-subnet.lst' HUP
echo trapped
cat fabric.lst > opensm-subnet.lst
while :; do sleep 1000 & wait $!; done
`

const openSMFile = "opensm.sh"

// writeOpenSM writes the script, and a shell that the process is named after: a file that was just
// written may still be open in a child of another test, and cannot be executed then.
func writeOpenSM(dir string) error {
	return errors.Join(os.WriteFile(filepath.Join(dir, openSMFile), []byte(openSMScript), 0o644), os.Symlink("/bin/sh", filepath.Join(dir, "opensm")))
}

// site is a running daemon with its manager.
type site struct {
	*Daemon
	t      *testing.T
	dir    string
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan error
}

// running starts a daemon and its manager on a fabric and waits for the first epoch.
func running(t *testing.T, f *topology.Fabric, set ...func(*Daemon)) *site {
	t.Helper()
	dir := t.TempDir()
	ok(t, writeOpenSM(dir))
	ok(t, os.WriteFile(filepath.Join(dir, "guid2lid"), fabgen.GUID2LID(f), 0o644))
	ok(t, os.WriteFile(filepath.Join(dir, "fabric.lst"), fabgen.SubnetLst(f), 0o644))
	cmd := exec.Command("./opensm", openSMFile)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	says, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	_, err = io.ReadFull(says, make([]byte, len("trapped\n"))) // an earlier SIGHUP would end it
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(dir, "opensm.pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644))
	s := &site{Daemon: daemonIn(t, dir), t: t, dir: dir, ended: make(chan error, 1)}
	s.cfg.OpenSM.DumpCommand = []string{"sh", "-c", "cd " + dir + "; [ -e hang ] && exec sleep 1000; [ -e own ] && exec cat own; exec cat lfts.dump"}
	for _, f := range set {
		f(s.Daemon)
	}
	limit, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	s.ctx, s.cancel = context.WithCancel(limit)
	t.Cleanup(cancel)
	go func() { s.ended <- s.Run(s.ctx) }()
	s.settles(func(_ *store.Epoch, v *view.View) bool { return len(v.Down) == 0 })
	return s
}

// sweep lets the manager see a fabric in a sweep of its own.
func (s *site) sweep(f *topology.Fabric) {
	s.t.Helper()
	ok(s.t, os.WriteFile(filepath.Join(s.dir, "fabric.lst"), fabgen.SubnetLst(f), 0o644),
		os.WriteFile(filepath.Join(s.dir, "opensm-subnet.lst"), fabgen.SubnetLst(f), 0o644))
}

// settles waits until the daemon is at rest and its epoch and fabric satisfy good.
func (s *site) settles(good func(*store.Epoch, *view.View) bool) {
	s.t.Helper()
	for {
		rest, idle := s.state.Now().Rest, s.state.Now().Status().State == controller.Idle.String()
		if e, v := s.state.Now().Epoch, s.state.Now().Latest; idle && e != nil && v != nil && e.Fabric == v.ID && good(e, v) {
			return
		}
		select {
		case <-rest:
		case <-time.After(50 * time.Millisecond): // Settled comes before Idle
		case <-s.ctx.Done():
			s.t.Fatalf("does not settle: %+v", s.Daemon.backend.Status())
		}
	}
}

// TestRun takes a daemon through its life while other goroutines request everything from
// it: the first epoch, a lost cable, its repair, a reroute, a rollback, a renumbered
// baseline, and the end. With -race, it detects unguarded state.
func TestRun(t *testing.T) {
	healthy := fabric(4, 4)
	s := running(t, healthy)
	b := s.Daemon.backend
	var askers sync.WaitGroup
	asking, enough := context.WithCancel(s.ctx)
	defer enough()
	for _, ask := range []func() error{
		func() error { b.Status(); _, err := b.Epochs(); return err },
		func() error { b.Topology(); _, err := s.backend.Metrics.Registry.Gather(); return err },
		func() error { _, err := b.WhatIf(asking, api.WhatIf{Fail: []string{"Spine002"}}); return err },
		func() error {
			_, err := s.backend.Tables()
			return errors.Join(err, s.inbox.call(asking, func(_ context.Context, _ *loop) {}))
		},
		func() error {
			_, err := backend.Jobs{Parts: &s.Daemon.backend.Parts}.CreateJob(asking, api.JobRequest{Name: "x", Hosts: []string{"Hca0003", "Hca0004", "Hca0012"}, LeaseSeconds: 60})
			_, gone := backend.Jobs{Parts: &s.Daemon.backend.Parts}.RemoveJob(asking, "x")
			return errors.Join(err, gone)
		},
	} {
		askers.Go(func() {
			for asking.Err() == nil {
				if err := ask(); err != nil && asking.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	first := s.state.Now().EpochNumber()
	s.sweep(lacking(healthy, 4, 1, 2))
	var without uint64
	s.settles(func(e *store.Epoch, v *view.View) bool { without = e.Epoch; return len(v.Down) == 1 && e.Epoch > first })
	s.sweep(healthy)
	s.settles(func(e *store.Epoch, v *view.View) bool { return len(v.Down) == 0 && e.Epoch > without })

	if c, err := b.Reroute(s.ctx); err != nil || c.Changed {
		t.Errorf("reroute: %+v, %v", c, err)
	}
	s.settles(func(*store.Epoch, *view.View) bool { return true })
	if c, err := b.Rollback(s.ctx, without); err != nil || !c.Changed {
		t.Errorf("rollback to the plan without the cable: %+v, %v", c, err)
	}
	var err error
	ok(t, s.inbox.call(s.ctx, func(_ context.Context, _ *loop) { err = s.accept(t.Context()) }), err)
	s.settles(func(*store.Epoch, *view.View) bool { return true })
	enough()
	askers.Wait()

	s.cancel()
	if err := <-s.ended; err != nil {
		t.Errorf("the daemon ended: %v", err)
	}
	if _, err := b.Reroute(t.Context()); err == nil {
		t.Error("a daemon that has ended took an order")
	}
	kinds := []string{controller.PlanFailed, controller.TablesFailed, controller.SweepTimeout, controller.TablesStale}
	for _, w := range s.health.List(time.Now()) {
		if slices.Contains(kinds, w.Code) {
			t.Error(fmt.Sprint(w))
		}
	}
}

// TestStartedWithoutPlan checks that forsd reports its start to the service manager when
// the API answers, even if no fabric has been seen. The boot does not wait for the
// subnet.
func TestStartedWithoutPlan(t *testing.T) {
	d := daemonIn(t, t.TempDir())
	said := make(chan string, 10)
	d.notify = func(s string) { said <- s }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	if s := <-said; s != "READY=1\nSTATUS=no plan is in force yet" {
		t.Errorf("it says %q", s)
	}
	client, err := api.Dial(d.cfg.API.Socket)
	ok(t, err)
	st, err := client.Status(ctx)
	ok(t, err)
	if st.Ready {
		t.Error("a plan is in force where no fabric was seen")
	}
	cancel()
	ok(t, <-ended)
}

// TestStartedAgain starts forsd with stored state. The fabric is known, and the last
// change is the start.
func TestStartedAgain(t *testing.T) {
	dir, f := t.TempDir(), fabric(4, 4)
	for _, want := range []string{"the fabric was seen for the first time", "forsd was started"} {
		d := readable(daemonIn(t, dir))
		d.atRest(t, f)
		if got := d.backend.Status().LastEvent; got == nil || !slices.Equal(got.What, []string{want}) {
			t.Errorf("the last change is %+v, want %q", got, want)
		}
		ok(t, d.store.Close())
	}
}
