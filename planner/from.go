package planner

import (
	"context"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// MakeFrom does the same as Make, but starts from an old plan: pairs of servers keep their
// lanes if these are up and the plan does not become longer. The lanes of the linear shift
// and the rotation do not depend on the past. MakeFrom compares any other plan with one that
// keeps the old phases as far as possible (fors.Remaining), and takes the plan that changes
// fewer pairs. The report has the number.
func MakeFrom(ctx context.Context, t *topology.FatTree, s Settings, old *phasetable.View) (*Result, error) {
	r, err := Make(ctx, t, s)
	if err != nil {
		return nil, err
	}
	changed, err := r.changesFrom(old)
	if err != nil {
		return nil, err
	}
	if e := r.Plan.Engine; changed > 0 && r.LIDs == LaneLIDs && (e == fors.Exact || e == fors.Algorithm) {
		rest, err := Remaining(ctx, r.Tree, old, 0)
		if err != nil {
			return nil, err
		}
		kept, err := rest.changesFrom(old)
		if err == nil && kept < changed && rest.Plan.Phases <= r.Plan.Phases && rest.Check(r.Tables) == nil {
			changed, r.Schedule = kept, rest.Schedule
		}
	}
	r.changed = &changed
	return r, nil
}

// changesFrom counts the pairs whose destination LID differs from an old plan's.
func (s *Schedule) changesFrom(old *phasetable.View) (int, error) {
	now, err := phasetable.New(s.Table(0))
	if err != nil {
		return 0, err
	}
	return len(phasetable.Changes(old, now)), nil
}
