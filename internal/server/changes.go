package server

import (
	"net/http"
	"strconv"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
)

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
		return api.Errorf(api.CodeNoPlan, "no plan is in force yet")
	}
	since, old, err := earlier(plans, r.URL.Query().Get("since"))
	if err != nil {
		return err
	}
	return writeMade(w, r, func() (any, error) {
		return api.PlanChanges{Since: since, Epoch: p.Epoch, Pairs: append([]phasetable.PairChange{}, phasetable.Changes(old, p.Table)...)}, nil
	})
}

// earlier returns the plan of the epoch that text names, from memory or from where epochs
// are kept.
func earlier(plans *published.Plans, text string) (epoch uint64, old *phasetable.View, err error) {
	p, err := exactly(plans, "since", text)
	if err == nil && p == nil {
		err = api.Errorf(api.CodeNoPlan, "no plan is in force yet")
	}
	if err == nil {
		return p.Epoch, p.Table, nil
	}
	if epoch, bad := strconv.ParseUint(text, 10, 64); bad == nil && plans.Stored != nil {
		if old, missing := plans.Stored(epoch); missing == nil {
			return epoch, old, nil
		}
	}
	return 0, nil, err
}
