package planner

import (
	"context"
	"fmt"
	"sync"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/verify"
)

// Verified verifies the schedule on each of the tables. A schedule that fails is replaced
// by one of the next engine that passes, with a warning, unless it has tables of its own,
// which carry no other.
func (s *Schedule) Verified(ctx context.Context, tables ...*lft.Tables) (*Schedule, error) {
	err := s.Check(tables...)
	if err == nil {
		return s, nil
	}
	if s.Plan.Engine == fors.Conservative || s.pins != nil {
		return nil, err
	}
	for second, again := range s.fallbacks(ctx) {
		if again == nil && second.Check(tables...) == nil {
			second.replaces(s, err)
			return second, nil
		}
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return nil, err
}

// replaces warns that the schedule stands in for one that failed verification.
func (s *Schedule) replaces(failed *Schedule, why error) {
	s.Warnings = append(s.Warnings, Warning{Code: EngineFallback, Text: fmt.Sprintf("the plan of engine %s failed verification and was replaced: %v", failed.Plan.Engine, why)})
}

// Check verifies the plan on each of the tables and returns the first error. If they agree
// on every entry that the plan uses, one walk serves all of them.
func (s *Schedule) Check(tables ...*lft.Tables) error {
	if len(tables) > 1 && verify.Plan(s.Tree, lft.Common(tables...), s.Rows, s.unreachable()) == nil {
		return nil
	}
	errs := make([]error, len(tables))
	var group sync.WaitGroup
	for i, t := range tables {
		group.Go(func() { errs[i] = verify.Plan(s.Tree, t, s.Rows, s.unreachable()) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("verify plan: %w", err)
		}
	}
	return nil
}

func (s *Schedule) unreachable() [][2]int32 { return fors.Numbers(s.Plan.Unreachable) }

// Check verifies on some tables that the plan is conflict-free and, together with the
// phases done, has every ordered pair of servers exactly once.
func (r *Rest) Check(tables *lft.Tables) error {
	if err := verify.Remaining(r.Tree, tables, r.past, r.Rows, r.unreachable()); err != nil {
		return fmt.Errorf("verify the plan of what remains: %w", err)
	}
	return nil
}
