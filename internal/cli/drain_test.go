package cli

import (
	"encoding/json"
	"net/http"

	"github.com/forsd/forsd/api"
)

// drained answers an order to drain Spine003, or the question of its cost.
func drained(r *http.Request) (any, error) {
	var q api.DrainRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	if q.Parts[0] != "Spine003" {
		return nil, api.BadRequest("drain %s: no spine and no leaf has the description or GUID %q: did you mean \"Spine003\"?", q.Parts[0], q.Parts[0])
	}
	out := api.Drained{Drains: fakeDrains(q.Reason), Cost: &api.DrainCost{Phases: 16, PhasesNow: 15, LowerBound: 16, Hosts: []string{"Hca0001"}, Jobs: []string{"job 43 loses 1 of its hosts"}}}
	out.Drains[0].At, out.Drains[0].Until = q.At, q.Until
	return out, nil
}

func undrained(r *http.Request) (any, error) {
	var q api.Undrain
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	return api.Drained{Drains: fakeDrains("")}, nil
}

func fakeDrains(reason string) []api.Drain {
	return []api.Drain{{Kind: "spine", Name: "Spine003", GUID: 0x300003, State: "draining", Since: began, Reason: reason, By: "root", Uses: []string{"the plan sends 3 transfers over it"}}}
}
