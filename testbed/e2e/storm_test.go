package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestStorm pulls random cables, one after the other, while jobs follow the plan, thirty
// clients read, others ask what would be, and the disk of the state directory is full. Each
// plan is without the cable, holds on the tables of the switches, and the figures tell how
// long it took; so for the plan with the cable when it is back. With FORS_LONG=1 it does so
// with 200 cables of the LHCb fabric.
func TestStorm(t *testing.T) {
	o, pulls, jobs, size := Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 6, Leaves: 6}), LMC: 3}, 10, 6, 6
	if os.Getenv("FORS_LONG") != "" {
		o, pulls, jobs, size = lhcb(), 200, 10, 36
	}
	x := newSite(t, 20*time.Minute, byPlugin(t, o))
	x.ok(os.MkdirAll(x.StateDir(), 0o755))
	if err := syscall.Mount("fors", x.StateDir(), "tmpfs", 0, "size=32m"); err != nil {
		t.Fatalf("this test mounts a file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(x.StateDir(), syscall.MNT_DETACH) })
	x.ok(x.Start(x.ctx))
	x.settled(nil)
	healthy := x.check()
	rng := rand.New(rand.NewPCG(200, 50))
	hosts := rng.Perm(len(healthy.Tree.Hosts))
	for j := range jobs {
		var names []string
		for _, h := range hosts[j*size:][:size] {
			names = append(names, healthy.Tree.Hosts[h].Name)
		}
		x.createJob(fmt.Sprintf("job%d", j), names...)
	}
	x.fill(x.StateDir())

	ctx, end := context.WithCancel(x.ctx)
	s := &storm{test: x}
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
	for i := range 4 {
		s.client(ctx, &s.whatIfs, func(c *api.Client) error {
			_, err := c.WhatIf(ctx, api.WhatIf{Fail: []string{fmt.Sprintf("Spine%03d", i)}})
			return err
		})
	}
	tree := healthy.Tree
	for n := range pulls {
		c := controller.Lane{Leaf: rng.IntN(len(tree.Leaves)), Lane: rng.IntN(tree.Lanes)}
		at := tree.Leaves[c.Leaf]
		port := int(at.Cables[c.Lane].LeafPort)
		s.out = append(s.out, s.change(c, "missing", func() error { return x.Sim.Unlink(x.ctx, at.Name, port) }))
		if n%10 == 0 {
			x.inSwitches()
		}
		s.back = append(s.back, s.change(c, "full", func() error { return x.Sim.Relink(x.ctx, at.Name, port) }))
	}
	end()
	s.clients.Wait()
	t.Logf("beside %d jobs, 30 readers with %d answers, 4 who ask what would be with %d, and a full disk:\nout of the plan: %s\nback in it:      %s",
		jobs, s.read.Load(), s.whatIfs.Load(), distribution(s.out), distribution(s.back))
	if s.read.Load() == 0 || s.whatIfs.Load() == 0 {
		t.Error("a kind of client was not answered")
	}
}

// storm changes cables beside clients.
type storm struct {
	*test
	clients       sync.WaitGroup
	read, whatIfs atomic.Int64
	out, back     []time.Duration // from a cable's change to the plan
}

// client has one ask until the end, and counts the answers.
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
				time.Sleep(100 * time.Millisecond)
			case ctx.Err() == nil:
				s.Errorf("a client is not answered: %v", err)
				return
			}
		}
	})
}

// change changes a cable and returns how long it took until the plan in force was without
// it, or with it again; and waits until forsd is at rest on that.
func (s *storm) change(c controller.Lane, state string, do func() error) time.Duration {
	s.Helper()
	before, err := s.Client.Status(s.ctx)
	s.ok(err)
	began := time.Now()
	s.ok(do())
	var took time.Duration
	for epoch := before.Epoch; took == 0; {
		plan, err := s.Client.WaitEpoch(s.ctx, epoch)
		s.ok(err)
		now := time.Since(began)
		if epoch = plan.Epoch; (s.sends(c.Leaf, c.Lane) == 0) == (state == "missing") {
			took = now
		}
	}
	st := s.settled(Cable(c.Leaf, c.Lane, state))
	if took > 50*time.Millisecond && state == "missing" || HasWarning(st, "plan-failed") {
		e := st.LastEvent
		s.Logf("cable %v is %s: %v; since its first sign planned %.1f, verified %.1f, published %.1f, in the switches %.1f ms; epochs %d to %d; %v",
			c, state, took.Round(100*time.Microsecond), e.PlannedMS, e.VerifiedMS, e.PublishedMS, e.ProgrammedMS, before.Epoch, st.Epoch, e.What)
	}
	if !HasWarning(st, "state-not-durable") {
		s.Errorf("the disk is full, and %v tell nothing of it", st.Warnings)
	}
	return took
}

// distribution says how long things took.
func distribution(took []time.Duration) string {
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(100 * time.Microsecond)
	}
	late, _ := slices.BinarySearch(took, 50*time.Millisecond)
	return fmt.Sprintf("median %v, 90 %% within %v, 99 %% within %v, all %d within %v; %d after more than 50 ms", at(.5), at(.9), at(.99), len(took), at(1), len(took)-late)
}
