package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/api"
)

// pollEvery is the time between two polls, a fiftieth of the time that has been waited if that is
// more: polls of a large fabric take time from forsd.
const pollEvery = 20 * time.Millisecond

// Until waits until look is satisfied. look returns the condition that is still missing. Until
// ends with ctx, and when forsd does; a forsd that ibsim's client library has ended is started
// again. The error of a look that ctx cut short is not reported, unless it was the first.
func (s *Site) Until(ctx context.Context, look func() error) error {
	began := time.Now()
	var missing error
	for {
		now := look()
		if now == nil {
			return nil
		}
		if missing == nil || ctx.Err() == nil {
			missing = now
		}
		var ended <-chan struct{}
		if s.Forsd != nil {
			ended = s.Forsd.Done() // look may have started it again
		}
		select {
		case <-time.After(max(pollEvery, time.Since(began)/50)):
		case <-ended:
			if s.Forsd.Overrun() {
				if err := s.StartForsd(); err != nil {
					return err
				}
				s.Overruns++
				continue
			}
			return fmt.Errorf("forsd has ended (%v) before: %w", s.Forsd.cmd.ProcessState, missing)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), missing)
		}
	}
}

// Settled waits until forsd sees a fabric that want accepts (nil accepts every one)
// and has done its work for it: the tables are read back, and the plan is in force.
// The topology is long, so it is requested only once forsd is at rest on a new
// fabric: the wait must not slow forsd down.
func (s *Site) Settled(ctx context.Context, want func(*api.Topology) error) (st *api.Status, err error) {
	var seen time.Time // of the topology last asked for
	var missing error  // the last error of want
	err = s.Until(ctx, func() error {
		if st, err = s.Client.Status(ctx); err != nil {
			return err
		}
		if err := settled(st); err != nil || want == nil {
			return err
		}
		if e := st.LastEvent; !e.SeenAt.Equal(seen) {
			top, err := s.Client.Topology(ctx)
			if err != nil {
				return err
			}
			if seen, missing = e.SeenAt, want(top); missing == nil {
				return errors.New("forsd has not been seen at rest on the fabric that it shows")
			}
		}
		return missing
	})
	if err != nil {
		return st, fmt.Errorf("wait for forsd to settle: %w", err)
	}
	return st, nil
}

// settled returns the reason why a status is not that of a site at rest. The times of the last
// event belong to the fabric seen last: once its tables were read back, the state is that of the
// work for it.
func settled(st *api.Status) error {
	switch {
	case st.State != "idle":
		return fmt.Errorf("it is %s with warnings %v", st.State, st.Warnings)
	case !st.Ready || st.Epoch == 0:
		return errors.New("no epoch is in force")
	case !st.OpenSM.TablesMatch || st.LastEvent == nil || st.LastEvent.ReadBackSeconds == 0:
		return fmt.Errorf("the tables of the last fabric have not been read back: %+v %+v", st.OpenSM, st.LastEvent)
	}
	return nil
}

// Warned waits until all the warnings are in force.
func (s *Site) Warned(ctx context.Context, codes ...string) (st *api.Status, err error) {
	err = s.Until(ctx, func() error {
		if st, err = s.Client.Status(ctx); err != nil {
			return err
		}
		for _, code := range codes {
			if !HasWarning(st, code) {
				return fmt.Errorf("warning %s is not in force, but %v", code, st.Warnings)
			}
		}
		return nil
	})
	return st, err
}

// HasWarning reports whether a warning is in force.
func HasWarning(st *api.Status, code string) bool {
	return slices.ContainsFunc(st.Warnings, func(w api.Warning) bool { return w.Code == code })
}

// Cable accepts a fabric in which a leaf's cable of a lane is in a state, as the
// API names them: full, degraded, missing, none.
func Cable(leaf, lane int, state string) func(*api.Topology) error {
	return func(t *api.Topology) error {
		if leaf >= len(t.Leaves) || lane >= len(t.Leaves[leaf].Cables) {
			return fmt.Errorf("no lane %d at leaf %d", lane, leaf)
		}
		if got := t.Leaves[leaf].Cables[lane]; got != state {
			return fmt.Errorf("the cable of leaf %d for lane %d is %s, not %s", leaf, lane, got, state)
		}
		return nil
	}
}

// SpinePresent accepts a fabric in which a spine is present or not, with all its
// cables.
func SpinePresent(spine int, present bool) func(*api.Topology) error {
	return func(t *api.Topology) error {
		if got := t.Spines[spine].Present; got != present {
			return fmt.Errorf("spine %d is present: %v", spine, got)
		}
		state := "missing"
		if present {
			state = "full"
		}
		for l := range t.Leaves {
			for k := range t.Spines[spine].Lanes {
				if err := Cable(l, t.Spines[spine].FirstLane+k, state)(t); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// Hosts accepts a fabric with so many host ports attached.
func Hosts(n int) func(*api.Topology) error {
	return func(t *api.Topology) error {
		if len(t.Hosts) != n {
			return fmt.Errorf("%d host ports are attached, not %d", len(t.Hosts), n)
		}
		return nil
	}
}
