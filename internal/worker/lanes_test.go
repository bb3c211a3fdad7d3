package worker

import (
	"testing"

	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestPin checks that every pair of hosts is pinned by a LID that uses its lane, even if base
// LIDs have other lanes: here a leaf has more hosts than lanes in use.
func TestPin(t *testing.T) {
	tree := fabgen.Damaged(t, fabgen.Spec{Spines: 5, Leaves: 5, Hosts: []int{7}, LMC: 3}, [2]int{0, 1}, [2]int{1, 2})
	routed, err := planner.Route(t.Context(), tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	q := PinRequest{Request: lanes.Request{BytesPerSecond: 1}, Tree: tree, Tables: routed.Tables}
	for _, s := range tree.Servers {
		q.Request.Hosts = append(q.Request.Hosts, tree.Hosts[s].GUID.String())
	}
	n := len(tree.Servers)
	for shift := 1; shift < n; shift++ {
		var stage lanes.Stage
		for i := range n {
			stage = append(stage, lanes.Send{From: int32(i), To: int32((i + shift) % n), Bytes: 1})
		}
		q.Request.Stages = append(q.Request.Stages, stage)
	}
	if _, err := pin(t.Context(), &q); err != nil {
		t.Error(err)
	}
}
