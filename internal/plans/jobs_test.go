package plans

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// plan returns the exchange of all servers of a tree with the given number of leaves.
func plan(t *testing.T, leaves int) (view.TreePlan, *topology.FatTree) {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: leaves, LMC: 2})
	fabgen.AssignLIDs(f, 2)
	tree := fabgen.Fitted(t, f)
	s, err := planner.Plan(t.Context(), tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return view.TreePlan{Schedule: s}, tree
}

// TestPlansOfJobs checks which plans of jobs are published: those that differ from the plans in
// force. The last plan of a job without hosts, or whose plan fails, stays, with a warning when the
// tables are in place.
func TestPlansOfJobs(t *testing.T) {
	dir := t.TempDir()
	cfg := config.Default()
	cfg.StateDir, cfg.API.Socket, cfg.OpenSM.LFTsFile = filepath.Join(dir, "state"), filepath.Join(dir, "s"), filepath.Join(dir, "lfts.dump")
	tracker := health.NewTracker([]health.Warnable{{Code: state.JobHostsMissing}, {Code: state.JobPlanFailed}}, func(health.Warning, bool) {})
	b := state.New(zap.NewNop(), tracker, published.NewEvents(64, time.Now()))
	v, err := state.Open(cfg, zap.NewNop(), b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	p := NewPublisher(Parts{Log: zap.NewNop(), State: b, Store: v})
	small, tree := plan(t, 3)
	large, _ := plan(t, 4)
	for _, name := range []string{"a", "b", "c"} {
		j := state.NewJob(store.Job{JobInfo: store.JobInfo{Name: name}}, time.Now())
		for _, i := range tree.Servers {
			j.Members = append(j.Members, planner.Member{Name: tree.Hosts[i].Name, GUID: tree.Hosts[i].GUID})
		}
		if err := v.Publish(v.Disk.Numbers.Next(), state.Plan{Proposal: small, Job: j}); err != nil {
			t.Fatal(err)
		}
	}
	again, _ := plan(t, 3)
	if plans := p.plansOfJobs(t.Context(), func(planner.Job) (view.Proposal, error) { return again, nil }, true); len(plans) != 0 {
		t.Errorf("%d plans differ from those in force", len(plans))
	}
	jobs := b.Now().Jobs
	for _, final := range []bool{false, true} {
		plans := p.plansOfJobs(t.Context(), func(j planner.Job) (view.Proposal, error) {
			switch j.ID {
			case jobs[0].ID:
				return nil, planner.ErrNoMember
			case jobs[1].ID:
				return nil, errors.New("it cannot be")
			}
			return large, nil
		}, final)
		if len(plans) != 1 || plans[0].Job != jobs[2] {
			t.Errorf("final %t: %d plans differ", final, len(plans))
		}
		var texts []string
		for _, w := range tracker.List(time.Now()) {
			texts = append(texts, w.Code+" "+w.Text)
		}
		warned := strings.Join(texts, "\n")
		if lost, failed := strings.Contains(warned, "its last plan stays"), strings.Contains(warned, state.JobPlanFailed+" job 2 (b): it cannot be"); lost != final || failed != final {
			t.Errorf("final %t: warned of %q", final, warned)
		}
	}
}
