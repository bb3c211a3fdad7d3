package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/e2e"
)

// takeOrder changes the world by an operator's order, or by the isolation that errors cause.
func (w *world) takeOrder(e event) error {
	if e.Change == "lease" {
		if len(e.Where) != 2 {
			return fmt.Errorf("event %q: want a job and its lease", e)
		}
		_, err := time.ParseDuration(e.Where[1])
		w.leases++
		return err
	}
	if len(e.Where) != 1 {
		return fmt.Errorf("event %q: want one part of the fabric", e)
	}
	part, known := e.Where[0], true
	at, err := parsePlace(part)
	if err == nil {
		_, _, err = w.cable(at)
	} else if w.isSwitch(part) {
		err = nil
	}
	if err != nil {
		return err
	}
	switch drained, bad := slices.Contains(w.drains, part), slices.Contains(w.bad, at); e.Change {
	case "drain", "drain-for":
		if known = !drained; e.Change == "drain" {
			w.drains = append(w.drains, part)
		}
	case "undrain":
		known = drained
		w.drains = slices.DeleteFunc(w.drains, func(d string) bool { return d == part })
	case "errors":
		known = !bad && at.Node != ""
		w.bad = append(w.bad, at)
	case "release":
		known = bad
		w.bad = slices.DeleteFunc(w.bad, func(p place) bool { return p == at })
	}
	if !known {
		return fmt.Errorf("event %q: %s is not in the state for that", e, part)
	}
	return nil
}

// isSwitch reports whether a spine or a leaf has the name.
func (w *world) isSwitch(name string) bool {
	for i := range w.tree.Spines {
		if w.tree.Spines[i].Name == name {
			return true
		}
	}
	for i := range w.tree.Leaves {
		if w.tree.Leaves[i].Name == name {
			return true
		}
	}
	return false
}

// lease is when the lease of a job ends: not before first, and at last.
type lease struct{ first, last time.Time }

// job makes a job of two hosts of each leaf: some of them always exist, because a job that has
// lost all keeps its last plan.
func (s *site) job(ctx context.Context, name string, lasts time.Duration) error {
	q := api.JobRequest{Name: name, LeaseSeconds: int64(lasts / time.Second), SkipUnknown: true}
	for h := range s.hosts {
		if x := &s.tree.Hosts[h]; x.Alpha < 2 {
			q.Hosts = append(q.Hosts, x.Name)
		}
	}
	began := time.Now()
	if _, err := s.Leader.Client.CreateJob(ctx, q); err != nil {
		return err
	}
	s.leases[name] = lease{began.Add(lasts), time.Now().Add(lasts)}
	return nil
}

// judgeJobs checks that jobs exist exactly as long as their leases, and that their plans
// hold.
func (s *site) judgeJobs(ctx context.Context, sight *e2e.Sight) error {
	for _, name := range slices.Sorted(maps.Keys(s.leases)) {
		l := s.leases[name]
		if time.Now().After(l.last) {
			if err := s.ended(ctx, name); err != nil {
				return err
			}
			delete(s.leases, name)
			continue
		}
		plan, err := s.Leader.Client.WaitJob(ctx, name, 0)
		if err != nil && time.Now().After(l.first) {
			continue
		}
		if err == nil {
			err = errors.Join(sight.CheckJob(plan), s.avoids(plan))
		}
		if err != nil {
			return fmt.Errorf("%s, whose lease ends in %v: %w", name, time.Until(l.first), err)
		}
	}
	return nil
}

// ended waits until a job whose lease has ended is gone: forsd may have been away then.
func (s *site) ended(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, fmt.Errorf("the lease of %s has ended", name))
	defer cancel()
	return s.Leader.Until(ctx, func() error {
		all, err := s.Leader.Client.Jobs(ctx)
		if err == nil && slices.ContainsFunc(all, func(j api.Job) bool { return j.Name == name }) {
			err = fmt.Errorf("%s is still there", name)
		}
		return err
	})
}

// order asks forsd for something until it does it.
func (s *site) order(ctx context.Context, e event) error {
	c := s.Leader.Client
	ask := map[string]func() error{
		"drain": func() error {
			_, err := c.Drain(ctx, api.DrainRequest{Parts: e.Where, Reason: "soak"})
			return err
		},
		"drain-for": func() error {
			_, err := c.Drain(ctx, api.DrainRequest{Parts: e.Where, Until: time.Now().Add(time.Duration(s.ahead)*time.Second + 3*time.Second)})
			return err
		},
		"undrain": func() error {
			_, err := c.Undrain(ctx, e.Where...)
			return err
		},
		"release": func() error {
			p, err := parsePlace(e.Where[0])
			if err != nil {
				return err
			}
			if count := s.counted[p]; count != nil {
				count.ended = true // it may have been isolated since countErrors looked
				if err := s.readCounters(ctx); err != nil {
					return err
				}
			}
			_, err = c.ReleaseCable(ctx, e.Where[0])
			return err
		},
		"lease": func() error {
			lasts, err := time.ParseDuration(e.Where[1])
			if err != nil {
				return err
			}
			return s.job(ctx, e.Where[0], lasts)
		},
	}
	return s.Leader.Until(ctx, ask[e.Change])
}

// count has the errors that a cable has counted.
type count struct {
	n     uint64
	at    time.Time // when it last counted more
	ended bool      // it has been isolated: it counts no more
}

func (c *count) value() uint64 {
	if c == nil {
		return 0
	}
	return c.n
}

// readCounters waits until forsd has read all counters since now: the second of two rounds that
// end has begun after now.
func (s *site) readCounters(ctx context.Context) error {
	var last time.Time // when the last round ended, by forsd's clock
	for rounds := -1; rounds < 2; rounds++ {
		err := s.Leader.Until(ctx, func() error {
			all, err := s.Leader.Client.Cables(ctx)
			if err == nil && all.ReadAt.Equal(last) {
				err = errors.New("counters are not read")
			}
			if err == nil {
				last = all.ReadAt
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// countErrors makes cables count more errors until forsd has isolated them.
func (s *site) countErrors(ctx context.Context) error {
	for p, c := range s.counted {
		if c.ended || time.Since(c.at) < 300*time.Millisecond {
			continue
		}
		all, err := s.Leader.Client.Cables(ctx)
		if err != nil {
			return err
		}
		for _, x := range all.Cables {
			c.ended = c.ended || x.State == "isolated" && p == place{x.Leaf.Name, int(x.Leaf.Port)}
		}
		if c.ended {
			continue
		}
		if err := s.count(ctx, p, c); err != nil {
			return err
		}
	}
	return nil
}

// count makes a cable count more errors.
func (s *site) count(ctx context.Context, p place, c *count) error {
	if c.n += 40; c.n > 60_000 { // the counter has 16 bits
		c.n = 0
	}
	c.at = time.Now()
	return s.First.Sim.SetCounter(ctx, p.Node, p.Port, "PortCounters.SymbolErrorCounter", c.n)
}
