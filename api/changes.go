package api

import (
	"net/http"

	"github.com/forsd/forsd/phasetable"
)

// PlanChanges is the answer of /v1/plan/changes: the ordered pairs of servers that both
// plans have, and that the later one gives another destination LID.
type PlanChanges struct {
	Since uint64                  `json:"since"` // the epoch that is compared with
	Epoch uint64                  `json:"epoch"`
	Pairs []phasetable.PairChange `json:"pairs"`
}

// changes answers GET /v1/plan/changes: what the plan in force, or that of the epoch that
// the request names, changes since another one.
func (s *service) changes(w http.ResponseWriter, r *http.Request) error {
	plans, err := s.byLIDs(r)
	if err != nil {
		return err
	}
	p, err := requestedPlan(r, plans)
	if err != nil {
		return err
	}
	if p == nil {
		return Errorf(http.StatusServiceUnavailable, CodeNoPlan, "no plan is in force yet")
	}
	old, err := exactly(plans, "since", r.URL.Query().Get("since"))
	if err != nil {
		return err
	}
	if old == nil {
		return Errorf(http.StatusServiceUnavailable, CodeNoPlan, "no plan is in force yet")
	}
	return WriteJSON(w, r, PlanChanges{Since: old.Epoch, Epoch: p.Epoch, Pairs: append([]phasetable.PairChange{}, phasetable.Changes(old.Table, p.Table)...)})
}
