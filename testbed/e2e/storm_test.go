package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestStorm pulls random cables, one after the other, while jobs follow the plan and the
// disk of the state directory is full, first without clients and then with thirty that read
// and thirty that ask what-ifs. Each plan is without the cable, holds on the tables of the
// switches, and its delay is measured; likewise for the plan with the cable when it is
// back. Few what-ifs are planned at a time, and plans do not wait for them. With FORS_LONG=1
// it does so with 200 cables of the LHCb fabric.
func TestStorm(t *testing.T) {
	o, alone, pulls, jobs, size := Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 6, Leaves: 6}), LMC: 3}, 4, 6, 6, 6
	if long {
		o, alone, pulls, jobs, size = lhcb(), 20, 200, 10, 36
	}
	x := newSite(t, 20*time.Minute, byPlugin(t, o))
	x.ok(os.MkdirAll(x.StateDir(), 0o755))
	if err := syscall.Mount("fors", x.StateDir(), "tmpfs", 0, "size=32m"); err != nil {
		t.Fatalf("this test mounts a file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(x.StateDir(), syscall.MNT_DETACH) })
	x.ok(x.Start(x.ctx))
	x.settled(nil)
	s := &storm{test: x, healthy: x.check(), rng: rand.New(rand.NewPCG(200, 50))}
	hosts := s.rng.Perm(len(s.healthy.Tree.Hosts))
	for j := range jobs {
		var names []string
		for _, h := range hosts[j*size:][:size] {
			names = append(names, s.healthy.Tree.Hosts[h].Name)
		}
		x.createJob(fmt.Sprintf("job%d", j), names...)
	}
	x.fill(x.StateDir())
	before := s.pullEach(alone)

	ctx, end := context.WithCancel(x.ctx)
	s.crowd(ctx)
	beside := s.pullEach(pulls)
	end()
	s.clients.Wait()
	t.Logf("with %d jobs and a full disk:\n%s\nand with 30 readers (%d answers) and 30 clients that ask what-ifs (%d answers, %d times told to come later, at most %d at a time):\n%s",
		jobs, before, s.read.Load(), s.whatIfs.Load(), s.later.Load(), s.workers, beside)
	if s.read.Load() == 0 || s.whatIfs.Load() == 0 || s.later.Load() == 0 || s.workers == 0 {
		t.Error("a kind of client was not answered, or had no limit")
	}
	if most := worker.Defaults().Number + 1; s.workers > most { // one more for short requests
		t.Errorf("%d what-ifs were planned at a time, want at most %d", s.workers, most)
	}
	if beside.out[len(beside.out)/2] > slowed*before.out[len(before.out)/2] || beside.back[len(beside.back)/2] > slowed*before.back[len(before.back)/2] {
		t.Errorf("plans take more than %d times as long with clients", slowed)
	}
}

// slowed is how many times as long plans may take, in the median, with clients.
const slowed = 8

// storm changes cables while clients are busy.
type storm struct {
	*test
	healthy              *Sight
	rng                  *rand.Rand
	clients              sync.WaitGroup
	read, whatIfs, later atomic.Int64
	workers              int // processes seen at a time that answer what-ifs
}

// times are the delays from a cable's change to the plan, in order.
type times struct{ out, read, back []time.Duration }

func (t *times) String() string {
	return "out of the plan: " + distribution(t.out) + "\nthat at a reader: " + distribution(t.read) + "\nback in it: " + distribution(t.back)
}

// pullEach pulls so many cables and puts each back.
func (s *storm) pullEach(cables int) *times {
	s.Helper()
	tree, t := s.healthy.Tree, &times{}
	for n := range cables {
		c := controller.Lane{Leaf: s.rng.IntN(len(tree.Leaves)), Lane: s.rng.IntN(tree.Lanes)}
		at := tree.Leaves[c.Leaf]
		port := int(at.Cables[c.Lane].LeafPort)
		out, read := s.change(c, "missing", func() error { return s.Sim.Unlink(s.ctx, at.Name, port) })
		if n%10 == 0 {
			s.inSwitches()
		}
		back, _ := s.change(c, "full", func() error { return s.Sim.Relink(s.ctx, at.Name, port) })
		t.out, t.read, t.back = append(t.out, out), append(t.read, read), append(t.back, back)
	}
	for _, took := range [][]time.Duration{t.out, t.read, t.back} {
		slices.Sort(took)
	}
	return t
}

// crowd starts the clients, which go on until ctx ends.
func (s *storm) crowd(ctx context.Context) {
	s.Helper()
	for range 20 {
		epoch := uint64(0)
		s.client(ctx, &s.read, func(c *api.Client) error { // as ranks do
			plan, err := c.WaitEpoch(ctx, epoch)
			if err != nil {
				return err
			}
			epoch = plan.Epoch
			_, err = c.Table(ctx)
			return err
		})
	}
	for range 10 {
		s.client(ctx, &s.read, func(c *api.Client) error { // as pages and monitors do
			_, err1 := c.Status(ctx)
			_, err2 := c.Topology(ctx)
			_, _, err3 := c.PhasesCSV(ctx)
			time.Sleep(200 * time.Millisecond)
			return errors.Join(err1, err2, err3)
		})
	}
	for i := range 30 {
		s.client(ctx, &s.whatIfs, func(c *api.Client) error {
			_, err := c.WhatIf(ctx, api.WhatIf{Fail: []string{fmt.Sprintf("Spine%03d", i%s.healthy.Tree.Lanes)}})
			return err
		})
	}
}

// client asks until the end, and counts the answers.
func (s *storm) client(ctx context.Context, answers *atomic.Int64, ask func(*api.Client) error) {
	s.Helper()
	c, err := api.Dial(s.Socket())
	s.ok(err)
	s.clients.Go(func() {
		defer c.Close()
		for ctx.Err() == nil {
			var e *api.Error
			switch err := ask(c); {
			case err == nil:
				answers.Add(1)
			case errors.As(err, &e): // it is told to ask later, or that something has changed
				if e.Code == api.CodeBusy {
					s.later.Add(1)
				}
				time.Sleep(100 * time.Millisecond)
			case ctx.Err() == nil:
				s.Errorf("a client is not answered: %v", err)
				return
			}
		}
	})
}

// change changes a cable and returns how long it took until the plan in force was without it, or
// with it again: by forsd's log, and at a reader among all others. It waits until forsd is at
// rest on that.
func (s *storm) change(c controller.Lane, state string, do func() error) (inForce, read time.Duration) {
	s.Helper()
	before, err := s.Client.Status(s.ctx)
	s.ok(err)
	began := time.Now()
	s.ok(do())
	epoch := before.Epoch
	for read == 0 {
		plan, err := s.Client.WaitEpoch(s.ctx, epoch)
		s.ok(err)
		now := time.Since(began)
		if epoch = plan.Epoch; (s.sends(c.Leaf, c.Lane) == 0) == (state == "missing") {
			read = now
		}
	}
	s.workers = max(s.workers, s.children("forsd-worker"))
	st := s.settled(Cable(c.Leaf, c.Lane, state))
	for _, d := range s.deeds() {
		if d.Epoch == epoch && d.Message == "published" {
			inForce = d.At.Sub(began)
		}
	}
	if inForce > 50*time.Millisecond && state == "missing" || HasWarning(st, "plan-failed") {
		s.Logf("cable %v is %s: in force %v after %s, read after %v, epoch %d:\n%s", c, state, inForce.Round(100*time.Microsecond),
			began.UTC().Format(stamp), read.Round(100*time.Microsecond), epoch, s.logged(began))
	}
	if !HasWarning(st, "state-not-durable") {
		s.Errorf("the disk is full, and the warnings %v do not say so", st.Warnings)
	}
	return inForce, read
}

// stamp is the form of times in forsd's log.
const stamp = "2006-01-02T15:04:05.000Z0700"

// logged is what forsd has logged since, half a second before that included.
func (x *test) logged(since time.Time) string {
	x.Helper()
	text, err := os.ReadFile(filepath.Join(x.Dir(), "forsd.log"))
	x.ok(err)
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		var d deed
		if json.Unmarshal([]byte(line), &d) == nil && d.At.After(since.Add(-time.Second/2)) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// children counts forsd's child processes of a name.
func (x *test) children(name string) (n int) {
	x.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", x.Forsd.PID()))
	x.ok(err)
	for _, thread := range threads {
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", x.Forsd.PID(), thread.Name()))
		for _, id := range strings.Fields(string(list)) {
			if command, _ := os.ReadFile("/proc/" + id + "/cmdline"); strings.HasPrefix(string(command), name) {
				n++
			}
		}
	}
	return n
}

// distribution describes durations, which are in order.
func distribution(took []time.Duration) string {
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(100 * time.Microsecond)
	}
	late, _ := slices.BinarySearch(took, 50*time.Millisecond)
	return fmt.Sprintf("median %v, 90 %% within %v, 99 %% within %v, all %d within %v; %d after more than 50 ms", at(.5), at(.9), at(.99), len(took), at(1), len(took)-late)
}
