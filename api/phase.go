package api

import (
	"net/http"
	"strconv"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// PlanPhase is the answer of /v1/plan/phase: the transfers of one phase.
type PlanPhase struct {
	Epoch     uint64     `json:"epoch"`
	Phases    int        `json:"phases"`
	Phase     int        `json:"phase"`
	Transfers []Transfer `json:"transfers"`
}

// Transfer is what one server sends to another.
type Transfer struct {
	Src  topology.GUID `json:"src"`
	Dst  topology.GUID `json:"dst"`
	Lane int           `json:"lane"` // −1 on one leaf
	DLID topology.LID  `json:"dlid"`
}

// phase answers GET /v1/plan/phase?phase=N.
func (s *service) phase(w http.ResponseWriter, r *http.Request) error {
	plans, err := s.byLIDs(r)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(r.URL.Query().Get("phase"))
	if err != nil || n < 0 {
		return BadRequest("phase=%.40s: want a number from 0 on", r.URL.Query().Get("phase"))
	}
	p, err := fresh(w, r, plans)
	if p == nil {
		return err
	}
	t := p.Table
	if n >= t.Phases() {
		return Errorf(http.StatusNotFound, CodeNotFound, "phase %d: the plan has %d phases, from 0 on", n, t.Phases())
	}
	out := PlanPhase{Epoch: t.Epoch(), Phases: t.Phases(), Phase: n, Transfers: []Transfer{}}
	for i := range t.Servers() {
		if x := t.At(i, n); x.SendTo != phasetable.Idle {
			out.Transfers = append(out.Transfers, Transfer{t.Server(i).GUID, t.Server(x.SendTo).GUID, x.Lane, x.DLID})
		}
	}
	return WriteJSON(w, r, out)
}
