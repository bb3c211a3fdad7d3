package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/e2e"
)

// rest waits until forsd is at rest on the fabric as it is, with no cable held back for a
// while, and judges the site.
func (s *site) rest(ctx context.Context) error {
	if s.unseen {
		if err := s.Leader.SM.Sweep(ctx); err != nil {
			return err
		}
	}
	var seen time.Time // of the fabric that was as it should be: forsd must be at rest on it a moment later
	err := s.Leader.Until(ctx, func() error {
		if err := s.countErrors(ctx); err != nil {
			return err
		}
		st, err := s.Leader.Settled(ctx, nil)
		if err != nil {
			return err
		}
		t, err := s.Leader.Client.Topology(ctx)
		if err == nil {
			err = s.expect(t)
		}
		if err == nil && e2e.HasWarning(st, controller.CableHeld) {
			err = errors.New("cables are still held back")
		}
		if err == nil {
			err = s.decided(ctx)
		}
		if err == nil && !t.SeenAt.Equal(seen) {
			seen, err = t.SeenAt, errors.New("the fabric has just been seen")
		}
		return err
	})
	if err != nil {
		return err
	}
	if s.outdated {
		if err := s.Leader.SM.Sweep(ctx); err != nil {
			return err
		}
	}
	sight, err := s.Leader.Check(ctx)
	if err != nil {
		return err
	}
	if err := sight.Reachable(); err != nil {
		return err
	}
	for _, after := range []int{0, s.judged % s.lids} {
		if err := s.First.Judge.Ibdmchk(ctx, sight.Outside, sight.Entries, after); err != nil {
			return err
		}
	}
	s.judged++
	plan, err := s.Leader.Client.Table(ctx)
	if err == nil {
		err = s.avoids(plan)
	}
	if err != nil {
		return fmt.Errorf("epoch %d: %w", plan.Epoch(), err)
	}
	return s.judgeJobs(ctx, sight)
}

// decided checks that forsd keeps exactly those parts out of the plan that were ordered out or
// have errors.
func (s *site) decided(ctx context.Context) error {
	all, err := s.Leader.Client.Cables(ctx)
	if err != nil {
		return err
	}
	for _, c := range all.Cables {
		at := place{c.Leaf.Name, int(c.Leaf.Port)}
		leaf, lane, err := s.cable(at)
		if err != nil || c.Link == "missing" || s.cables[leaf][lane] != none {
			continue // no plan could use it
		}
		if want := s.held(leaf, lane); c.Held != want {
			return fmt.Errorf("whether the cable at %v is held out of the plan is %v, and should be %v: it is %s (%v; %s)", at, c.Held, want, c.State, c.Why, c.Refused)
		}
	}
	drains, err := s.Leader.Client.Drains(ctx)
	if err != nil {
		return err
	}
	var parts []string
	for _, d := range drains {
		parts = append(parts, s.part(d))
		members := func(use string) bool {
			return strings.HasPrefix(use, "job ") && strings.HasSuffix(use, " of its hosts")
		}
		if d.Uses = slices.DeleteFunc(d.Uses, members); d.State != "safe" && (d.Kind != "leaf" || len(d.Uses) > 0) { // programs of jobs may send until these end
			return fmt.Errorf("%s is %s, and should be safe to pull: %v", s.part(d), d.State, d.Uses)
		}
	}
	if want := slices.Sorted(slices.Values(s.drains)); !slices.Equal(slices.Sorted(slices.Values(parts)), want) {
		return fmt.Errorf("drained are %v, and should be %v", parts, want)
	}
	return nil
}

// part names a drained part as events do.
func (s *site) part(d api.Drain) string {
	for i := range s.tree.Leaves {
		if l := &s.tree.Leaves[i]; d.Kind == "cable" && l.GUID == d.GUID {
			return place{l.Name, int(d.Port)}.String()
		}
	}
	return d.Name
}

// avoids checks that a plan uses no part that is kept out of it.
func (s *site) avoids(plan *phasetable.View) error {
	for n := range plan.Servers() {
		from := plan.Server(n).Leaf
		if s.out(from) {
			return fmt.Errorf("%s is in the plan, and its leaf is drained", plan.Server(n).Name)
		}
		row := plan.Row(n)
		for p := range row.Len() {
			t := row.At(p)
			if t.SendTo == phasetable.Idle || t.Lane < 0 {
				continue
			}
			for _, leaf := range []int{from, plan.Server(t.SendTo).Leaf} {
				if s.held(leaf, t.Lane) {
					return fmt.Errorf("phase %d: %s sends over the cable at %v, which is kept out of the plan", p, plan.Server(n).Name, s.port(leaf, t.Lane))
				}
			}
		}
	}
	return nil
}
