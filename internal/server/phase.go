package server

import (
	"net/http"
	"strconv"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
)

// phase answers GET /v1/plan/phase?phase=N.
func (s *service) phase(w http.ResponseWriter, r *http.Request) error {
	plans, err := s.byLIDs(r)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(r.URL.Query().Get("phase"))
	if err != nil || n < 0 {
		return api.BadRequest("phase=%.40s: want a number from 0 on", r.URL.Query().Get("phase"))
	}
	p, err := fresh(w, r, plans)
	if p == nil {
		return err
	}
	t := p.Table
	if n >= t.Phases() {
		return api.NotFound("phase %d: the plan has %d phases, from 0 on", n, t.Phases())
	}
	out := api.PlanPhase{Epoch: t.Epoch(), Phases: t.Phases(), Phase: n, Transfers: []api.Transfer{}}
	for i := range t.Servers() {
		if x := t.At(i, n); x.SendTo != phasetable.Idle {
			out.Transfers = append(out.Transfers, api.Transfer{Src: t.Server(i).GUID, Dst: t.Server(x.SendTo).GUID, Lane: x.Lane, DLID: x.DLID})
		}
	}
	return WriteJSON(w, r, out)
}
