package plans

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/delivery/desk"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

func ok(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// newPublisher returns a publisher without any plan.
func newPublisher(t *testing.T) *Publisher {
	t.Helper()
	dir := t.TempDir()
	cfg := config.Default()
	cfg.StateDir, cfg.API.Socket, cfg.OpenSM.LFTsFile = filepath.Join(dir, "state"), filepath.Join(dir, "s"), filepath.Join(dir, "lfts.dump")
	tracker := health.NewTracker([]health.Warnable{{Code: state.JobHostsMissing}, {Code: state.JobPlanFailed}}, func(health.Warning, bool) {})
	shared := state.New(zap.NewNop(), tracker, published.NewEvents(64, time.Now()))
	kept, err := state.Open(cfg, zap.NewNop(), shared)
	ok(t, err)
	t.Cleanup(func() { _ = kept.Close() })
	most := 0.5
	return NewPublisher(Parts{Log: zap.NewNop(), State: shared, Store: kept, Desk: desk.Open(cfg.OpenSM.LFTsFile, "", false, zap.NewNop()),
		Planning: planner.Settings{Memory: &planner.Memory{}, MaxUnreachable: &most}})
}

// asks has the publisher plan, and publishes the plan, unless that in force stays.
func (p *Publisher) asks(t *testing.T, a controller.Plan) (same bool) {
	t.Helper()
	e := p.Plan(t.Context(), a).(controller.Planned)
	if e.Err != "" {
		t.Fatalf("%s: %s", a, e.Err)
	}
	if !e.Same {
		ok(t, p.Publish(t.Context()))
	}
	return e.Same
}

// settles takes a fabric through the actions of the controller, with the plan first unless the
// tables in the switches are unknown.
func (p *Publisher) settles(t *testing.T, v *view.View) {
	t.Helper()
	p.State.Remember(v)
	s := v.Snapshot()
	if p.Desk.InSwitches() != nil {
		if e := p.Plan(t.Context(), controller.Plan{Fabric: s, Avoid: v.Down}).(controller.Planned); e.Err == "" && !e.Same {
			ok(t, p.Publish(t.Context()))
		}
	}
	_, err := p.Write(t.Context(), controller.Write{Fabric: s})
	ok(t, err)
	p.JobsAhead(t.Context())
	r, err := v.Route(t.Context(), nil, p.Settings())
	ok(t, err)
	p.Desk.Read(r.Tables, true)
	p.asks(t, controller.Plan{Fabric: s, Final: true})
	now := p.State.Now()
	ok(t, v.Carries(r.Tables, now.Epoch.Plan, nil))
	if again := p.asks(t, controller.Plan{Fabric: s, Final: true}); !again || p.State.Now().EpochNumber() != now.EpochNumber() {
		t.Errorf("the same fabric gets epoch %d after %d", p.State.Now().EpochNumber(), now.EpochNumber())
	}
	for _, j := range now.Jobs {
		if current := j.Plans.Current(); current == nil || current.Epoch != j.Epoch {
			t.Errorf("%s: epoch %d is not what its readers have", j.Label(), j.Epoch)
		}
	}
}

// fails returns the view of a fabric after failures.
func fails(t *testing.T, v *view.View, what ...string) *view.View {
	t.Helper()
	f := v.Fabric.Clone()
	for _, spec := range what {
		_, err := f.Fail(spec)
		ok(t, err)
	}
	w, err := view.New(f, v.Tree.Baseline, &config.Planning{})
	ok(t, err)
	return w
}

// TestFollow takes trees of two and three levels with a job through dead cables and back.
func TestFollow(t *testing.T) {
	for name, c := range map[string]struct {
		fabric *topology.Fabric
		cable  string
	}{
		"two levels":      {fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 5}), "Leaf001/7"},
		"as many LIDs":    {fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}), "Leaf001/7"},
		"three levels":    {fabgen.GenerateTree(fabgen.TreeSpec{Pods: 4, Leaves: 2, Mids: 2, Tops: 2, Hosts: 2, LMC: 2}), "Leaf001/3"},
		"tables of plans": {fabgen.GenerateTree(fabgen.KAry(4)), "Leaf001/3"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(t)
			p.Paired = true
			v, err := view.Fit(c.fabric, nil, &config.Planning{}, true)
			ok(t, err)
			p.State.Remember(v)
			p.asks(t, controller.Plan{Fabric: v.Snapshot(), Ahead: true}) // laid out, as by one that follows another
			p.settles(t, v)
			first := p.State.Now()
			members, _, err := v.Members([]string{"Hca0000", "Hca0001", "Hca0002", "Hca0005", "Hca0006", "Hca0007"}, false)
			ok(t, err)
			j := state.NewJob(store.Job{JobInfo: store.JobInfo{Name: "a", Members: members, OwnLanes: true}}, time.Now())
			j.Renew(time.Now(), time.Hour)
			plan, err := p.forMembers(t.Context(), v, nil, p.Desk.Possible())(j.Planning())
			ok(t, err)
			ok(t, p.Store.Publish(p.Store.Disk.Numbers.Next(), state.Plan{Proposal: plan, Job: j}))
			hurt := fails(t, v, c.cable).After(v, func(*topology.FatTree) []controller.Lane { return nil })
			p.settles(t, hurt)
			now := p.State.Now()
			if now.EpochNumber() == first.EpochNumber() || now.Base == nil || now.Load.BusiestCable == 0 || now.Jobs[0].Bases.Current() == nil != v.JobsOnRoutes() {
				t.Errorf("epoch %d after %d, base plan %v, load %+v, job %+v", now.EpochNumber(), first.EpochNumber(), now.Base, now.Load, now.Jobs[0])
			}
			if better := p.PrepareAhead(t.Context(), hurt, nil); better != nil {
				p.settles(t, better)
			}
			p.settles(t, v)

			e, err := p.Store.Disk.Epochs.Load(first.EpochNumber())
			ok(t, err)
			again := state.Plan{Proposal: state.Known{Plan: e.Plan, About: e.Report}, About: store.EpochInfo{Fabric: v.ID, RollbackOf: e.Epoch}}
			ok(t, p.Store.Publish(p.Store.Disk.Numbers.Next(), again))
			if !p.pinnedHolds(v) || !p.asks(t, controller.Plan{Fabric: v.Snapshot(), Final: true}) {
				t.Error("a rollback is not kept")
			}
			ended, end := context.WithCancel(t.Context())
			end()
			if e := p.Plan(ended, controller.Plan{Fabric: fails(t, v, c.cable, "Hca0003").Snapshot(), Final: true}).(controller.Planned); e.Err == "" {
				t.Error("a plan of which the time is over is made")
			}
		})
	}
	Release()
}

// TestOwnRoutes plans a fabric on tables that OpenSM has made, and refuses tables that reach too few.
func TestOwnRoutes(t *testing.T) {
	p := newPublisher(t)
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	tree, err := view.Fit(f, nil, &config.Planning{}, true)
	ok(t, err)
	r, err := tree.Route(t.Context(), nil, planner.Settings{})
	ok(t, err)
	v := view.NewOwnRoutes(f, nil, "it is said to be none")
	p.State.Remember(v)
	none := 0.0
	p.Planning.MaxUnreachable = &none
	empty := *r.Tables
	empty.Switches = nil
	for i := range r.Tables.Switches {
		s := r.Tables.Switches[i]
		s.Out = make([]uint8, len(s.Out))
		for lid := range s.Out {
			s.Out[lid] = lft.NoPath
		}
		empty.Switches = append(empty.Switches, s)
	}
	p.Desk.Read(&empty, false)
	if e := p.Plan(t.Context(), controller.Plan{Fabric: v.Snapshot(), Final: true}).(controller.Planned); e.Err == "" || !e.Refused {
		t.Errorf("tables without a path: %+v", e)
	}
	p.Desk.Read(r.Tables, false)
	p.asks(t, controller.Plan{Fabric: v.Snapshot(), Final: true})
	now := p.State.Now()
	ok(t, v.Carries(r.Tables, now.Epoch.Plan, nil))
	if now.Epoch.Report.Engine != view.EngineLiquid || now.Base == nil || !p.asks(t, controller.Plan{Fabric: v.Snapshot(), Final: true}) {
		t.Errorf("engine %s, base plan %v", now.Epoch.Report.Engine, now.Base)
	}
}

// TestCompare compares plans with the tables of the switches.
func TestCompare(t *testing.T) {
	for kind, f := range map[controller.Kind]*topology.Fabric{
		controller.FatTree:     fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}),
		controller.ThreeLevels: fabgen.GenerateTree(fabgen.KAry(4)),
	} {
		v, err := view.Fit(f, nil, &config.Planning{}, true)
		ok(t, err)
		r, err := v.Route(t.Context(), nil, planner.Settings{})
		ok(t, err)
		w := Compare(t.Context(), v, planner.Settings{}, func(context.Context) (*lft.Tables, error) { return r.Tables, nil })
		if w.Error != "" || w.Plan.Phases != 15 || w.Shift.Phases != 15 || w.Shift.Lost != 0 {
			t.Errorf("%s: %+v, plan %+v, shift %+v", kind, w, w.Plan, w.Shift)
		}
		if w = Compare(t.Context(), v, planner.Settings{}, func(context.Context) (*lft.Tables, error) { return nil, errors.New("off") }); w.Error == "" || w.Plan == nil {
			t.Errorf("%s: tables that cannot be read: %+v", kind, w)
		}
	}
}
