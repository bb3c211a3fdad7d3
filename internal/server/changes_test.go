package server

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
)

// TestPlanChanges asks for the changes of an epoch since another one, which is kept or not.
func TestPlanChanges(t *testing.T) {
	s := newSite(t)
	table := s.Plans.Current().Table.Table()
	for i, d := range table.To {
		if d != phasetable.Idle && table.Lane[i] != phasetable.Local {
			table.Lane[i] ^= 1
			table.DLID[i] ^= 1
			break
		}
	}
	table.Epoch = 43
	now, err := phasetable.New(table)
	if err != nil {
		t.Fatal(err)
	}
	want := api.PlanChanges{Since: 42, Epoch: 43, Pairs: phasetable.Changes(s.Plans.Current().Table, now)}
	p, err := published.NewPlan(now, json.RawMessage(`{"version":1}`), started)
	if err != nil {
		t.Fatal(err)
	}
	h := Handler(s.Config, false)
	if w := request(h, "GET", "/v1/plan/changes?since=43", ""); w.Code != 410 {
		t.Errorf("since the next epoch: %d %s", w.Code, w.Body)
	}
	s.Plans.Publish(p)
	var got api.PlanChanges
	if w := request(h, "GET", "/v1/plan/changes?since=42", ""); w.Code != 200 || json.Unmarshal(w.Body.Bytes(), &got) != nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if d := cmp.Diff(want, got); d != "" || len(got.Pairs) != 1 {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	for query, code := range map[string]int{"": 400, "?since=x": 400, "?since=41": 410, "?since=42&epoch=41": 410, "?since=42&lids=base": 503, "?since=43&epoch=42": 200} {
		if w := request(h, "GET", "/v1/plan/changes"+query, ""); w.Code != code {
			t.Errorf("%s: %d %s, want %d", query, w.Code, w.Body, code)
		}
	}
}
