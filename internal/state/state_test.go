package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
)

// fabrics returns the views of a fabric whole and with a dead cable.
func fabrics(t *testing.T) (whole, cut *view.View) {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	whole, err := view.Fit(f, nil, &config.Planning{}, true)
	ok(t, err)
	f = f.Clone()
	_, err = f.Fail("Leaf001/5")
	ok(t, err)
	cut, err = view.New(f, whole.Tree.Baseline, &config.Planning{})
	ok(t, err)
	return whole, cut
}

// TestChange follows a change from the fabric that shows it to its end, which wakes those who wait.
func TestChange(t *testing.T) {
	v := open(t, t.TempDir())
	s := v.state
	whole, cut := fabrics(t)
	whole.SeenAt, cut.SeenAt = time.Now(), time.Now()
	s.Remember(whole)
	if now := s.Now(); now.Latest != whole || !slices.Equal(now.WhatOf(whole), []string{"the fabric was seen for the first time"}) || now.WhatOf(cut) != nil || now.OwnRoutes() {
		t.Errorf("at first: %v", now.Change.What)
	}
	ok(t, v.AcceptBaseline(whole.Tree.Baseline))
	s.Adopt(whole.Tree.Baseline)
	s.Settled()
	rest := s.Now().Rest
	s.Remember(cut)
	s.Mark(cut.ID, cut.SeenAt.Add(time.Second), func(x *Times) *time.Time { return &x.Planned })
	s.Mark(cut.ID, cut.SeenAt.Add(time.Hour), func(x *Times) *time.Time { return &x.Planned })
	s.Mark(whole.ID, cut.SeenAt, func(x *Times) *time.Time { return &x.Verified })
	s.Show(controller.Before, nil, false)
	s.SetLoad(phasetable.Load{BusiestCable: 3})
	s.ShowDrains([]exclusions.Drain{{Name: "Spine002"}})
	now := s.Now()
	if x := now.Change; x.Settled || x.Since(x.Planned) != time.Second || x.Since(x.Verified) != 0 || len(x.What) != 1 || !strings.Contains(x.What[0], "Leaf001 port 5") {
		t.Errorf("the change is %+v", x)
	}
	if st := now.Status(); st.State != "planning-before" || st.LastEvent.PlannedSeconds != 1 || st.Load.BusiestCable != 3 || len(st.Baseline) != 1 || st.FabricKind != "fat-tree" || len(now.Drains) != 1 {
		t.Errorf("the status is %+v", st)
	}
	select {
	case <-rest:
		t.Error("the change has settled")
	default:
	}
	before := s.Settled()
	<-rest
	if before.Latest != cut || !s.Now().Change.Settled || !s.GetReady() || s.GetReady() {
		t.Error("the end of a change")
	}
	s.Remember(whole) // what was known of it is used again
	s.Remember(cut)
	third := *whole
	third.ID, third.Why = "third", "the configuration was reloaded"
	s.Remember(&third)
	if what := s.Now().Change.What; what[0] != third.Why {
		t.Errorf("a reason that is given: %v", what)
	}
	s.Decided(cut, "a cable is isolated")
	if what := s.Now().WhatOf(cut); !slices.Equal(what, []string{"a cable is isolated"}) {
		t.Errorf("a decision: %v", what)
	}
}

// TestJobWarnings warns of jobs whose hosts are missing, whose plans fail, and that share lanes.
func TestJobWarnings(t *testing.T) {
	v := open(t, t.TempDir())
	v.health = health.NewTracker([]health.Warnable{{Code: JobHostsMissing}, {Code: JobPlanFailed}, {Code: JobDegraded}, {Code: JobSharesLanes}}, func(health.Warning, bool) {})
	s := v.state
	s.Health = v.health
	whole, _ := fabrics(t)
	members, _, err := whole.Members([]string{"Hca0000", "Hca0005", "Hca0009"}, false)
	ok(t, err)
	r, err := planner.Make(t.Context(), planner.Restrict(whole.Tree, []ib.GUID{members[0].GUID, members[1].GUID}), planner.Settings{})
	ok(t, err)
	plan, err := phasetable.New(r.Table(0))
	ok(t, err)
	for _, name := range []string{"a", "b"} {
		j := NewJob(store.Job{JobInfo: store.JobInfo{Name: name, Members: members, OwnLanes: true}}, time.Now())
		j.Renew(time.Now(), time.Hour)
		warnings := []planner.Warning{{Code: planner.PlanOverBound, Text: "the plan is long"}}
		ok(t, v.Publish(v.Disk.Numbers.Next(), Plan{Proposal: Known{Plan: plan, About: r.Report(), Warnings: warnings}, Job: j}))
	}
	a := s.Now().Jobs[0]
	if d := a.Detail(); len(d.Hosts) != 3 || len(d.Missing) != 1 || d.Missing[0].Name != members[2].Name || len(a.Guids()) != 3 || len(s.Now().Planning()) != 2 {
		t.Errorf("job %+v", d)
	}
	s.JobsFailed(map[uint64]health.Finding{a.ID: {Code: JobPlanFailed, Text: "it cannot be"}})
	has := func(code, text string) bool {
		return slices.ContainsFunc(v.health.List(time.Now()), func(w health.Warning) bool { return w.Code == code && strings.Contains(w.Text, text) })
	}
	for code, text := range map[string]string{JobHostsMissing: "is absent, and its plan leaves it out", JobPlanFailed: "it cannot be", JobDegraded: "the plan is long", JobSharesLanes: "it shares cables with"} {
		if !has(code, text) {
			t.Errorf("no %s: %s in %+v", code, text, v.health.List(time.Now()))
		}
	}
	changed := v.ChangeJob(a, func(next *Job) { next.Lanes = []planner.JobLane{{}} })
	s.JobsUnrouted(true)
	if !has(JobSharesLanes, "base LIDs take other lanes here") || len(changed.Summary().Lanes) != 1 {
		t.Errorf("a job with lanes: %+v", changed.Summary())
	}
	for _, j := range s.Now().Jobs {
		v.EndJob(j, "removed")
	}
	if has(JobSharesLanes, "") || has(JobPlanFailed, "") {
		t.Error("there are warnings about jobs that have ended")
	}
}
