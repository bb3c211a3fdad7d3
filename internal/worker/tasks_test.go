package worker

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
)

// task runs a task in this process, and returns its answer.
func task[A, Q any](t *testing.T, name string, q *Q) (*A, error) {
	t.Helper()
	var in, out bytes.Buffer
	if err := gob.NewEncoder(&in).Encode(q); err != nil {
		t.Fatal(err)
	}
	got, err := Tasks()[name](t.Context(), gob.NewDecoder(&in))
	if err != nil {
		return nil, err
	}
	a := new(A)
	if err := errors.Join(gob.NewEncoder(&out).Encode(got), gob.NewDecoder(&out).Decode(a)); err != nil {
		t.Fatal(err)
	}
	return a, nil
}

// TestTasks puts a question to each task, and one that it refuses.
func TestTasks(t *testing.T) {
	tree := fabgen.Damaged(t, fabgen.Spec{Spines: 4, Leaves: 4, LMC: 5})
	tables, err := lft.Build(tree)
	if err != nil {
		t.Fatal(err)
	}
	r, err := planner.Make(t.Context(), tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	running, err := phasetable.New(r.Table(7))
	if err != nil {
		t.Fatal(err)
	}
	settings := Settings(planner.Settings{Memory: &planner.Memory{}})
	var refused *api.Error

	whole, err := task[whatIfResult](t, whatIfTask, &WhatIfRequest{Tree: tree, Settings: settings, Epoch: 8})
	if err != nil {
		t.Fatal(err)
	}
	if plan, err := phasetable.Decode(whole.Table); err != nil || plan.Phases() != 15 || plan.Epoch() != 8 || whole.Remaining != nil {
		t.Errorf("a plan of %d phases: %v", plan.Phases(), err)
	}
	pools := NewPools()
	if f, err := WhatIf(t.Context(), pools.Operators, &WhatIfRequest{Tree: tree, Settings: settings, Epoch: 8}); err != nil || !bytes.Equal(f.Table.Bytes(), whole.Table) {
		t.Errorf("in another process: %v", err)
	}
	members := []ib.GUID{tree.Hosts[0].GUID, tree.Hosts[1].GUID, tree.Hosts[5].GUID, tree.Hosts[9].GUID}
	rest, err := task[whatIfResult](t, whatIfTask, &WhatIfRequest{Tree: tree, Settings: settings, Running: running.Bytes(), Done: 5, Tables: []*lft.Tables{tables}})
	if err != nil {
		t.Fatal(err)
	}
	if rest.Remaining.Done != 5 || rest.Remaining.Phases != 10 || rest.Remaining.Epoch != 7 {
		t.Errorf("the rest of an exchange: %+v", rest.Remaining)
	}
	if _, err := task[whatIfResult](t, whatIfTask, &WhatIfRequest{Tree: tree, Running: running.Bytes(), Done: 99}); !errors.As(err, &refused) {
		t.Errorf("an exchange that is over: %v", err)
	}
	three := fabgen.FittedPods(t, fabgen.GenerateTree(fabgen.KAry(4))).Exchange()
	if pods, err := task[whatIfResult](t, whatIfTask, &WhatIfRequest{Tree: three, Epoch: 8}); err != nil || !json.Valid(pods.Plan) {
		t.Errorf("three levels: %v", err)
	}

	for _, own := range []bool{false, true} {
		job, err := task[JobPlan](t, jobTask, &JobRequest{Tree: tree, Settings: settings, Members: members, Tables: []*lft.Tables{tables}, Number: 9, OwnLanes: own})
		if err != nil {
			t.Fatal(err)
		}
		if plan, err := phasetable.Decode(job.Table); err != nil || plan.Servers() != 4 || plan.Phases() != 3 || plan.Job() != 9 || job.Base == nil {
			t.Errorf("a job's plan of %d servers and %d phases: %v", plan.Servers(), plan.Phases(), err)
		}
	}
	if _, err := task[JobPlan](t, jobTask, &JobRequest{Tree: tree, Tables: []*lft.Tables{tables}, Number: 9}); !errors.As(err, &refused) {
		t.Errorf("a job without hosts: %v", err)
	}

	request := lanes.Request{Hosts: []string{tree.Hosts[0].Name, tree.Hosts[5].Name}, BytesPerSecond: 1e9, Stages: []lanes.Stage{{{From: 0, To: 1, Bytes: 1 << 20}}}}
	if pinned, err := task[lanes.Plan](t, lanesTask, &PinRequest{Request: request, Tree: tree, Settings: settings, Tables: tables}); err != nil || len(pinned.Parts) != 1 {
		t.Errorf("stages on lanes: %+v, %v", pinned, err)
	}
	request.Hosts[1] = "none"
	if _, err := task[lanes.Plan](t, lanesTask, &PinRequest{Request: request, Tree: tree, Tables: tables}); !errors.As(err, &refused) {
		t.Errorf("an unknown host: %v", err)
	}
	if _, err := task[api.Measured](t, measureTask, &MeasureRequest{Times: []byte("{}"), Plan: running.Bytes(), Fabric: tree.Fabric, Tables: tables}); !errors.As(err, &refused) {
		t.Errorf("no times: %v", err)
	}
}

// TestQuestions has a pool for each kind of caller, and admits as many as can wait.
func TestQuestions(t *testing.T) {
	pools := NewPools()
	if pools.Questions(t.Context()) != pools.Operators {
		t.Error("forsd itself asks as others do")
	}
	viewer := access.With(t.Context(), &access.Request{Caller: &api.Caller{Role: api.Viewer}})
	if pools.Questions(viewer) != pools.Others {
		t.Error("a viewer asks as operators do")
	}
	var leave []func()
	for {
		out, err := pools.Times.Enter()
		if err != nil {
			break
		}
		leave = append(leave, out)
	}
	if len(leave) != 3 { // one runs, two wait
		t.Errorf("%d enter", len(leave))
	}
	leave[0]()
	if _, err := pools.Times.Enter(); err != nil {
		t.Errorf("after one has left: %v", err)
	}
	for _, err := range []error{ErrBusy, ErrTime, ErrMemory, context.Canceled} {
		var refused *api.Error
		if !errors.As(refusal(err), &refused) {
			t.Errorf("%v is not the API's", err)
		}
	}
}

// TestRaggedPods asks for plans of trees of three levels with hosts missing: another process must
// plan as this one does.
func TestRaggedPods(t *testing.T) {
	all, turned := 1., 0
	for seed := uint64(0); turned < 4; seed++ {
		tree, err := fabgen.Ragged(seed, false)
		if err != nil {
			t.Fatal(err)
		}
		if tree.Baseline.Places == 0 || tree.Baseline.Rounds > 0 {
			continue // the baseline tells the turns
		}
		turned++
		r, err := podplan.Make(t.Context(), tree, podplan.Settings{MaxUnreachable: &all})
		if err != nil {
			t.Fatal(err)
		}
		want, err := phasetable.Encode(r.Rows(8))
		if err != nil {
			t.Fatal(err)
		}
		got, err := task[whatIfResult](t, whatIfTask, &WhatIfRequest{Tree: tree.Exchange(), Settings: Settings{MaxUnreachable: &all}, Epoch: 8})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Table, want) {
			t.Errorf("tree %d: another plan", seed)
		}
	}
}
