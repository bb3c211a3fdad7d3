package planner

import (
	"context"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// MakeFrom does what Make does, and starts from an old plan: pairs of servers keep their
// lanes where these live and the plan gets no longer by it. The linear shift and the
// rotation have lanes that do not depend on what was before. Any other plan is compared
// with one that keeps the old phases as far as it can (fors.Remaining), and that which
// changes fewer pairs is taken. The report says how many.
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

// changesFrom counts the pairs that have another destination LID than by an old plan.
func (s *Schedule) changesFrom(old *phasetable.View) (int, error) {
	now, err := phasetable.New(s.Table(0))
	if err != nil {
		return 0, err
	}
	return len(phasetable.Changes(old, now)), nil
}
