package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
)

func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// newState returns the state of a forsd that has none.
func newState(t *testing.T) *State {
	t.Helper()
	return newStateIn(t, t.TempDir())
}

func newStateIn(t *testing.T, dir string) *State {
	t.Helper()
	cfg := config.Default()
	cfg.StateDir, cfg.API.Socket, cfg.OpenSM.LFTsFile = filepath.Join(dir, "state"), filepath.Join(dir, "s"), filepath.Join(dir, "lfts.dump")
	tracker := health.NewTracker([]health.Warnable{{Code: state.JobHostsMissing}}, func(health.Warning, bool) {})
	shared := state.New(zap.NewNop(), tracker, published.NewEvents(8, time.Now()))
	kept, err := state.Open(cfg, zap.NewNop(), shared)
	ok(t, err)
	t.Cleanup(func() { _ = kept.Close() })
	return &State{State: shared, Store: kept, KeepEpochs: 20}
}

// leading returns the state of a forsd with a plan, a plan for base LIDs, and a job.
func leading(t *testing.T) *State {
	t.Helper()
	s := newState(t)
	v, err := view.Fit(fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}), nil, &config.Planning{}, true)
	ok(t, err)
	s.State.Remember(v)
	r, err := planner.Make(t.Context(), v.Tree, planner.Settings{})
	ok(t, err)
	plan, err := phasetable.New(r.Table(0))
	ok(t, err)
	known := state.Known{Plan: plan, About: r.Report()}
	j := state.NewJob(store.Job{JobInfo: store.JobInfo{Name: "a", Members: []planner.Member{{GUID: 1, Name: "x"}}}}, time.Now())
	j.Renew(time.Now(), time.Hour)
	ok(t, s.Store.AcceptBaseline(v.Tree.Baseline), s.Store.Publish(1, state.Plan{Proposal: known}), s.Store.Publish(1, state.Plan{Proposal: known, Base: true}),
		s.Store.Publish(2, state.Plan{Proposal: known, Job: j}))
	j = s.State.Now().Jobs[0]
	ok(t, s.Store.Publish(2, state.Plan{Proposal: known, Job: j, Base: true}), s.Store.Decide("drains", []string{"Leaf001"}))
	return s
}

// passed returns what a forsd hands over, as the other one reads it.
func passed(t *testing.T, from *State) *Replica {
	t.Helper()
	text, err := json.Marshal(from.Now(standby.Word{Leads: true}).Replica(standby.Ask{}))
	ok(t, err)
	r := &Replica{}
	ok(t, json.Unmarshal(text, r), r.check())
	return r
}

// TestKeep has a forsd adopt the state of another, as it changes, and resume from its own disk.
func TestKeep(t *testing.T) {
	leader, follower := leading(t), newState(t)
	same := func(when string) {
		t.Helper()
		r := passed(t, leader)
		ok(t, follower.Keep(r), follower.Keep(r))
		a, b := leader.State.Now(), follower.State.Now()
		if !bytes.Equal(a.Baseline.Encode(), b.Baseline.Encode()) || !bytes.Equal(a.Epoch.Plan.Bytes(), b.Epoch.Plan.Bytes()) || (a.Base == nil) != (b.Base == nil) || len(a.Jobs) != len(b.Jobs) ||
			leader.Store.Disk.Numbers.Last() != follower.Store.Disk.Numbers.Last() || leader.Store.Decisions().Serial() != follower.Store.Decisions().Serial() {
			t.Errorf("%s: %+v and %+v", when, a, b)
		}
		for i, j := range a.Jobs {
			if k := b.Jobs[i]; j.Epoch != k.Epoch || j.BaseEpoch != k.BaseEpoch || !j.Expires.Equal(k.Expires) || k.Plans.Current().Epoch != j.Epoch {
				t.Errorf("%s: job %+v and %+v", when, j, k)
			}
		}
		if f, err := r.CheckedFabric(); err != nil || len(f.Nodes) != len(a.Latest.Fabric.Nodes) {
			t.Errorf("%s: the fabric: %v", when, err)
		}
		e, err := follower.Store.Disk.Epochs.Load(a.EpochNumber())
		if err != nil || !bytes.Equal(e.Plan.Bytes(), a.Epoch.Plan.Bytes()) {
			t.Errorf("%s: epoch %d is not stored: %v", when, a.EpochNumber(), err)
		}
	}
	same("at first")
	j := leader.State.Now().Jobs[0]
	leader.Store.ChangeJob(j, func(next *state.Job) { next.Renew(time.Now(), 2*time.Hour) })
	same("a lease")
	e := leader.State.Now().Epoch
	ok(t, leader.Store.Publish(leader.Store.Disk.Numbers.Next(), state.Plan{Proposal: state.Known{Plan: e.Plan, About: e.Report}}))
	leader.State.NoBase(nil)
	same("another epoch")
	leader.Store.EndJob(leader.State.Now().Jobs[0], "removed")
	same("a job that has ended")
}

// TestKeepAfterLoss has a forsd follow a leader that has lost plans, and one follow that has lost
// its own: neither shows a plan until its number is above theirs.
func TestKeepAfterLoss(t *testing.T) {
	leader, follower := leading(t), newState(t)
	shows := func(when string, epoch, job uint64) {
		t.Helper()
		now := follower.State.Now()
		j := uint64(0)
		if p := now.Jobs[0].Plans.Current(); p != nil {
			j = p.Epoch
		}
		if now.EpochNumber() != epoch || j != job {
			t.Errorf("%s: epoch %d and job plan %d are shown, want %d and %d", when, now.EpochNumber(), j, epoch, job)
		}
	}
	r := passed(t, leader)
	r.Passed = 1
	ok(t, follower.Keep(r))
	shows("the leader has lost plans up to 1", 0, 2)

	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "s.numbers"), []byte(`{"given": 5000}`), 0o644))
	follower = newStateIn(t, dir)
	ok(t, follower.Keep(passed(t, leader)))
	shows("it has lost plans up to 5000", 0, 0)
	if whole, brief := follower.Now(standby.Word{}).Replica(standby.Ask{}), follower.Now(standby.Word{}).Replica(standby.Ask{Brief: true}); whole.Last != 2 || whole.Passed != 5000 || brief.Last != 5000 {
		t.Errorf("it says that it has given numbers up to %d and has lost plans up to %d, and to a leader that it has given numbers up to %d", whole.Last, whole.Passed, brief.Last)
	}
	leader.PassOver([]standby.Action{standby.Lead{Above: 5000}})
	ok(t, follower.Keep(passed(t, leader)))
	shows("the leader has passed over 5000", 0, 0)
	e := leader.State.Now().Epoch
	ok(t, leader.Store.Publish(leader.Store.Disk.Numbers.Next(), state.Plan{Proposal: state.Known{Plan: e.Plan, About: e.Report}}))
	ok(t, follower.Keep(passed(t, leader)))
	shows("the leader has published again", 5001, 0)
	if now := follower.Now(standby.Word{}).Replica(standby.Ask{Brief: true}); now.Last != 5001 {
		t.Errorf("it says that it has given numbers up to %d", now.Last)
	}
}

// TestKeepRefuses checks that what does not belong together is not adopted.
func TestKeepRefuses(t *testing.T) {
	leader := leading(t)
	for name, spoil := range map[string]func(r *Replica){
		"epoch":     func(r *Replica) { r.Epoch.About.Epoch++ },
		"table":     func(r *Replica) { r.Epoch.Table = r.Epoch.Table[1:] },
		"base plan": func(r *Replica) { r.Last = 0 },
		"job":       func(r *Replica) { r.Jobs[0].About.ID++ },
		"job base":  func(r *Replica) { r.Jobs[0].Base = r.Jobs[0].Base[1:] },
	} {
		r := passed(t, leader)
		if spoil(r); newState(t).Keep(r) == nil {
			t.Errorf("a wrong %s is adopted", name)
		}
	}
	r := passed(t, leader)
	r.Fabric.Nodes[0].Ports[1].Peer = -7
	if _, err := r.CheckedFabric(); err == nil {
		t.Error("a fabric with a peer of −7 is adopted")
	}
}

// TestPeer asks a forsd over HTTP, and is asked.
func TestPeer(t *testing.T) {
	leader := leading(t)
	none, err := Dial("", api.Credentials{})
	ok(t, err)
	if _, err := none.Answer(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)); err == nil || none.Exists() {
		t.Error("without a peer, one is answered")
	}
	var answers Peer
	answers.Desk.Show(leader.Now(standby.Word{Leads: true}))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := answers.Desk.Answer(r)
		ok(t, err, json.NewEncoder(w).Encode(a))
	}))
	defer srv.Close()
	p, err := Dial(srv.URL, api.Credentials{})
	ok(t, err)
	p.Put(standby.Ask{Serial: 6})
	p.Put(standby.Ask{Serial: 7}) // in its place
	ctx, end := context.WithCancel(t.Context())
	got := make(chan *Replica)
	done := make(chan error, 1)
	go func() {
		done <- p.Run(ctx, func(_ context.Context, serial uint64, r *Replica, err error) {
			if serial != 7 || err != nil {
				t.Errorf("question %d: %v", serial, err)
			}
			got <- r
		})
	}()
	if r := <-got; r.Last != 2 || !r.Whole || len(r.Jobs) != 1 {
		t.Errorf("%+v", r)
	}
	end()
	ok(t, <-done)
}
