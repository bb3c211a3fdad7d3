package plans

import (
	"errors"
	"os"
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

func ok(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// open returns the jobs of a state directory, which it takes over from an earlier registry.
func open(t *testing.T, dir string, before *Jobs) *Jobs {
	t.Helper()
	if before != nil {
		ok(t, before.Store.Close())
	}
	cfg := config.Default()
	cfg.StateDir, cfg.API.Socket, cfg.OpenSM.LFTsFile = filepath.Join(dir, "state"), filepath.Join(dir, "s"), filepath.Join(dir, "lfts.dump")
	b := state.New(zap.NewNop(), health.NewTracker([]health.Warnable{{Code: state.StateNotDurable}, {Code: JobHostsMissing}, {Code: JobSharesLanes}}, func(health.Warning, bool) {}), published.NewEvents(64, time.Now()))
	r := &Jobs{Log: zap.NewNop(), State: b}
	var err error
	r.Store, err = state.Open(cfg, zap.NewNop(), b, r.Stored)
	ok(t, err)
	t.Cleanup(func() { _ = r.Store.Close() }) // the test may have closed it
	damaged, err := r.Resume()
	ok(t, damaged, err)
	return r
}

// plan returns the exchange of all servers of a tree with the given number of leaves.
func plan(t *testing.T, leaves int) (view.TreePlan, *topology.FatTree) {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: leaves, LMC: 2})
	fabgen.AssignLIDs(f, 2)
	tree := fabgen.Fitted(t, f)
	s, err := planner.Plan(t.Context(), tree, planner.Settings{})
	ok(t, err)
	return view.TreePlan{Schedule: s}, tree
}

// admit adds a job of all servers of a tree.
func admit(t *testing.T, r *Jobs, name string, lease time.Duration) *Job {
	t.Helper()
	p, tree := plan(t, 3)
	j := &Job{Job: store.Job{JobInfo: store.JobInfo{Name: name}}}
	for _, i := range tree.Servers {
		j.Members = append(j.Members, planner.Member{Name: tree.Hosts[i].Name, GUID: tree.Hosts[i].GUID})
	}
	j, err := j.Planned(p, r.Store.Next())
	ok(t, err)
	j.Renew(time.Now(), lease)
	ok(t, r.Store.SaveJob(&j.Job), r.Set(j))
	return j
}

// base returns the number of a job's plan for base LIDs in force, or 0.
func base(r *Jobs, id uint64) uint64 {
	if p := r.byID(id).Bases.Current(); p != nil {
		return p.Epoch
	}
	return 0
}

// TestBaseNumbers checks the numbers of a job's plans for base LIDs, across restarts of forsd
// and of the machine.
func TestBaseNumbers(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, nil)
	id := admit(t, r, "a", time.Hour).ID
	small, _ := plan(t, 3)
	large, _ := plan(t, 4)
	set := func(p view.TreePlan, want uint64) {
		t.Helper()
		ok(t, r.SetBase(id, p.Schedule.Table(0), p.Schedule.Report()))
		if n := base(r, id); n != want {
			t.Errorf("the plan for base LIDs is %d, want %d", n, want)
		}
	}
	set(small, id) // together with the job's first plan
	set(small, id)
	set(large, id+1)
	r.NoBase(id, errors.New("a cable died"))
	if base(r, id) != 0 {
		t.Error("a plan that has ended is in force")
	}
	set(large, id+1)
	r = open(t, dir, r)
	if r.byID(id).Plans.Current() == nil || base(r, id) != 0 {
		t.Error("after a restart the plan is not in force, or that for base LIDs is before tables are known")
	}
	set(large, id+1)
	set(small, id+2)
	ok(t, r.Store.Close())
	path := filepath.Join(dir, "state", "promised.json")
	ok(t, os.WriteFile(path, []byte(`{"epoch":50,"boot":"another"}`), 0o644))
	r = open(t, dir, nil)
	if r.byID(id).Plans.Current() != nil {
		t.Error("the machine failed, and a plan is in force that may not be the last")
	}
	set(small, 51)
}

// TestPublish checks that plans of jobs are published under one number, even if the disk fails,
// without those of jobs that have ended.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, nil)
	a, b := admit(t, r, "a", time.Hour), admit(t, r, "b", time.Hour)
	other, _ := plan(t, 3)
	same := func(planner.Job) (view.Proposal, error) { return other, nil }
	if plans := r.Plan(t.Context(), same, true); len(plans) != 0 {
		t.Errorf("%d plans differ from those in force", len(plans))
	}
	large, _ := plan(t, 4)
	plans := r.Plan(t.Context(), func(j planner.Job) (view.Proposal, error) {
		if j.ID == a.ID {
			return nil, planner.ErrNoMember
		}
		return large, nil
	}, true)
	if text := r.Troubles()[a.ID].Text; len(plans) != 1 || !strings.Contains(text, "its last plan stays") {
		t.Fatalf("%d plans differ, and of the job without hosts is said %q", len(plans), text)
	}
	ok(t, os.RemoveAll(filepath.Join(dir, "state")))
	ok(t, r.Publish(plans, r.Store.Next()))
	got, err := r.Find("b")
	ok(t, err)
	n := got.Epoch // from the clock, as no number was promised
	if n <= b.Epoch || got.Plans.Current().Epoch != n || got.ID != b.ID {
		t.Errorf("job %d has plan %d, and %d is in force", got.ID, n, got.Plans.Current().Epoch)
	}
	if r.Store.PendingErr() == nil {
		t.Error("stored in a directory that is gone")
	}
	if r.Store.RestoreNow(); r.Store.PendingErr() != nil {
		t.Error(r.Store.PendingErr())
	}
	r = open(t, dir, r)
	if got, err := r.Find("b"); err != nil || got.Epoch != n || len(r.List()) != 2 {
		t.Errorf("after a restart there are %d jobs, and b is not at %d: %v", len(r.List()), n, err)
	}
	if next := r.Store.Next(); next <= n {
		t.Errorf("number %d follows %d", next, n)
	}
}

// TestLeases checks that jobs end permanently when their lease ends or they are removed.
func TestLeases(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, nil)
	short, long := admit(t, r, "short", time.Minute), admit(t, r, "long", time.Hour)
	if due := time.Until(r.LeaseDue()); due <= 0 || due > time.Minute {
		t.Errorf("the first lease ends in %v", due)
	}
	r.EndLeases(time.Now().Add(2 * time.Minute))
	if _, err := r.Find("short"); err == nil || len(r.List()) != 1 {
		t.Error("a job outlasts its lease")
	}
	if short.Plans.Current() != nil {
		t.Error("the plan of a job that has ended is in force")
	}
	r.End(long, "removed")
	last := r.Store.Last()
	r = open(t, dir, r)
	if len(r.List()) != 0 || r.Store.Last() != last {
		t.Errorf("%d jobs are back, and the last number is %d, was %d", len(r.List()), r.Store.Last(), last)
	}
}
