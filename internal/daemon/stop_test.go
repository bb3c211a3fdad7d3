package daemon

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// doing is an activity of a daemon that is told to stop.
type doing struct {
	name  string
	begin func(s *site)
}

// stops stops a daemon during each activity. The daemon must stop within a second of the
// time that an idle one takes, and the next daemon must find its complete state.
func stops(t *testing.T, f *topology.Fabric, all []doing, set ...func(*Daemon)) {
	idle := stop(t, f, doing{"idle", func(*site) {}}, set...)
	for _, what := range all {
		if took := stop(t, f, what, set...); took > idle+time.Second {
			t.Errorf("%s: it ends after %v, and an idle one after %v", what.name, took, idle)
		}
	}
}

// stop stops one daemon and returns the time that it takes.
func stop(t *testing.T, f *topology.Fabric, what doing, set ...func(*Daemon)) time.Duration {
	t.Helper()
	s := running(t, f, set...)
	_, err := backend.Jobs{Parts: &s.Daemon.backend.Parts}.CreateJob(s.ctx, api.JobRequest{Name: "a", Hosts: names(0, 2), LeaseSeconds: 600})
	ok(t, err)
	what.begin(s)
	epoch, jobs, state := s.state.Now().EpochNumber(), s.state.Now().Jobs, s.Daemon.backend.Status().State
	began := time.Now()
	s.cancel()
	ok(t, <-s.ended)
	took := time.Since(began)
	t.Logf("%s (%s): ended after %v", what.name, state, took.Round(time.Millisecond))

	_ = s.store.Close() // if work was under way, only the end of the process closes it
	again := daemonIn(t, s.dir)
	if again.state.Now().EpochNumber() < epoch || again.store.Disk.Numbers.Next() <= epoch {
		t.Errorf("%s: epoch %d was in force, and epoch %d is; the next number is %d", what.name, epoch, again.state.Now().EpochNumber(), again.store.Disk.Numbers.Next())
	}
	if list := again.state.Now().Jobs; len(list) != len(jobs) || list[0].ID != jobs[0].ID || list[0].Epoch < jobs[0].Epoch {
		t.Errorf("%s: the jobs were %v, and are %v", what.name, jobs, list)
	}
	for _, w := range again.health.List(time.Now()) {
		t.Errorf("%s: %s: %s", what.name, w.Code, w.Text)
	}
	ok(t, again.store.Close())
	return took
}

// in waits until the controller is in a state.
func (s *site) in(state controller.State) {
	s.t.Helper()
	for s.Daemon.backend.Status().State != state.String() {
		select {
		case <-time.After(time.Millisecond):
		case <-s.ctx.Done():
			s.t.Fatalf("it is never %v", state)
		}
	}
}

// touch creates a file that controls the manager.
func (s *site) touch(name string) { ok(s.t, os.WriteFile(filepath.Join(s.dir, name), nil, 0o644)) }

// asks connects to a socket and sends some bytes. It reads nothing.
func (s *site) asks(socket, text string) {
	s.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(s.dir, socket))
	ok(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

// TestStops stops a daemon during any work or wait.
func TestStops(t *testing.T) {
	t.Parallel()
	f := fabric(8, 6)
	cut := lacking(f, 8, 1, 2)
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }
	post := func(path, body string, length int) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, length, body)
	}
	held := make(chan struct{})
	defer close(held)
	all := []doing{
		{"tables cannot be read", func(s *site) { s.touch("hang"); s.sweep(cut); s.in(controller.Reading) }},
		{"the manager does not sweep", func(s *site) { s.touch("deaf"); s.sweep(cut); s.in(controller.Sweeping) }},
		{"clients wait", func(s *site) {
			s.asks("s", get("/v1/events"))
			s.asks("s", get("/v1/replica?have=x&wait=60")+get("/v1/replica?wait=60"))
			s.asks("s", "GET /v1/plan HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=60\r\nIf-None-Match: \"1\"\r\n\r\n")
			s.asks("s", post("/v1/whatif", `{"fail":`, 1000))
			s.asks("s", "GET /v1/st")
			s.asks("p", "")
			s.asks("p", "\x00\x00")
			for range 50 {
				s.asks("s", get("/v1/plan/phases")+get("/v1/tables"))
			}
			time.Sleep(20 * time.Millisecond)
		}},
		{"a reroute is waited for", func(s *site) {
			s.touch("deaf")
			s.asks("s", post("/v1/reroute", "", 0))
			s.in(controller.Sweeping)
		}},
		{"others have it compute", func(s *site) {
			for range 3 {
				s.asks("s", post("/v1/whatif", `{"fail":["Spine003"]}`, 21))
			}
			time.Sleep(20 * time.Millisecond)
		}},
		{"an action hangs in the disk", func(s *site) { s.work.Go(func() { <-held }) }},
		{"the loop hangs in the disk", func(s *site) {
			hangs := make(chan struct{})
			go func() { _ = s.inbox.call(s.ctx, func(_ context.Context, _ *loop) { close(hangs); <-held }) }()
			<-hangs
		}},
	}
	stops(t, f, all)
}

// TestStopsAmidChange stops a daemon at different times of a change.
func TestStopsAmidChange(t *testing.T) {
	t.Parallel()
	f := fabric(20, 18)
	cut := lacking(f, 20, 1, 2)
	var all []doing
	for _, ms := range []int{1, 5, 12, 20, 30, 45, 70} {
		all = append(all, doing{fmt.Sprintf("%d ms after a cable died", ms), func(s *site) {
			s.sweep(cut)
			time.Sleep(time.Duration(ms) * time.Millisecond)
		}})
	}
	stops(t, f, all, func(d *Daemon) { d.actions.plans.Planning.Engine = "exact" })
}

// TestStopsPlanningOnRoutes stops a daemon while it schedules a fabric other than a fat
// tree, which takes half a minute if it is not stopped.
func TestStopsPlanningOnRoutes(t *testing.T) {
	large := fabgen.Torus(6, 6, 4)
	stops(t, fabric(4, 4), []doing{{"a torus is scheduled", func(s *site) {
		s.routes(large)
		s.sweep(large)
		s.in(controller.After)
	}}}, func(d *Daemon) { d.cfg.Planning.OtherFabrics = config.OtherLiquid })
}

// routes sets tables of the manager's own in the switches.
func (s *site) routes(f *topology.Fabric) {
	s.t.Helper()
	var text bytes.Buffer
	ok(s.t, shortest(f).Write(&text, nil), os.WriteFile(filepath.Join(s.dir, "own"), text.Bytes(), 0o644))
}
