package daemon

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/standby/replica"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestFollowAfterReboot follows after a reboot of the follower's machine, which may have
// given unknown numbers. If so, the leader has given them, and continues to lead. The
// next leader skips them.
func TestFollowAfterReboot(t *testing.T) {
	f := fabric(4, 4)
	w := newTwins(t, f)
	w.sync(t, "")
	ok(t, w.follower.inbox.between(t.Context(), func(_ context.Context, _ turn) {
		dir := w.follower.cfg.StateDir
		ok(t, w.follower.store.Close())
		promise(t, dir, 70, "another")
		fresh, err := store.Open(dir)
		ok(t, err)
		w.follower.store.Disk = fresh
	}))
	jobs := backend.Jobs{Parts: &w.leader.backend.Parts}
	_, err := jobs.CreateJob(t.Context(), api.JobRequest{Name: "a", Hosts: names(0, 2), LeaseSeconds: 60})
	ok(t, err)
	w.sync(t, "")
	w.same(t)
	var brief *replica.Replica
	ok(t, w.follower.inbox.between(t.Context(), func(_ context.Context, at turn) {
		brief = at.handover().Now(standby.Word{}).Replica(standby.Ask{Brief: true})
	}))
	ok(t, w.leader.told(t, brief))
	if w.leader.state.Now().Standby {
		t.Error("the leader takes numbers that were promised for numbers that were given")
	}
	ok(t, w.follower.inbox.between(t.Context(), func(_ context.Context, _ turn) {
		if n := w.follower.store.Disk.Numbers.Next(); n != 71 || w.follower.store.Disk.Numbers.Passed() != 70 {
			t.Errorf("the next number is %d, and up to 70 may have been given", n)
		}
	}))
	ok(t, w.leader.inbox.between(t.Context(), func(_ context.Context, _ turn) { w.leader.store.Disk.Numbers.AdvanceTo(80) }))
	w.sync(t, "")
	ok(t, w.follower.inbox.between(t.Context(), func(_ context.Context, _ turn) {
		if n := w.follower.store.Disk.Numbers.Next(); n != 81 || w.follower.store.Disk.Numbers.Passed() != 0 {
			t.Errorf("the next number is %d, and the leader has given 80", n)
		}
	}))
}

// TestFollowOverDamage follows with two damaged plans of a job on disk, the leader's plan
// and a later one. The leader's plan replaces them.
func TestFollowOverDamage(t *testing.T) {
	f := fabric(4, 4)
	w := newTwins(t, f)
	jobs := backend.Jobs{Parts: &w.leader.backend.Parts}
	_, err := jobs.CreateJob(t.Context(), api.JobRequest{Name: "a", Hosts: names(0, 2), LeaseSeconds: 60})
	ok(t, err)
	w.sync(t, "")
	plans, err := filepath.Glob(filepath.Join(w.follower.cfg.StateDir, "jobs", "*-*"))
	ok(t, err)
	if len(plans) != 1 {
		t.Fatalf("the follower has stored %v", plans)
	}
	ok(t, os.CopyFS(plans[0][:len(plans[0])-1]+"9", os.DirFS(plans[0])))
	ok(t, os.Truncate(filepath.Join(plans[0], "phases.bin"), 99))
	ok(t, w.follower.inbox.between(t.Context(), func(context.Context, turn) { w.restart(t) }))
	w.sync(t, "")
	w.same(t)
}

// restart has the follower read its stored state again, as at a start.
func (w *twins) restart(t *testing.T) {
	t.Helper()
	_, err := w.follower.store.Resume()
	ok(t, err)
}

// TestDecisionsTravel checks that decisions are handed over, and survive a restart.
func TestDecisionsTravel(t *testing.T) {
	w := newTwins(t, fabric(4, 4))
	decide := func(what any) {
		t.Helper()
		ok(t, w.leader.inbox.between(t.Context(), func(context.Context, turn) { ok(t, w.leader.store.Decide("others", what)) }))
		w.sync(t, "")
	}
	decided := func() (got []string) {
		t.Helper()
		ok(t, w.follower.inbox.between(t.Context(), func(context.Context, turn) { ok(t, w.follower.store.Decision("others", &got)) }))
		return got
	}
	decide([]string{"Leaf001/5"})
	if got := decided(); len(got) != 1 || got[0] != "Leaf001/5" {
		t.Errorf("the follower has %q", got)
	}
	ok(t, w.follower.inbox.between(t.Context(), func(context.Context, turn) { w.restart(t) }))
	if got := decided(); len(got) != 1 {
		t.Errorf("after a restart the follower has %q", got)
	}
	decide(nil)
	if got := decided(); got != nil {
		t.Errorf("the follower still has %q", got)
	}
}

// TestDecisionOutlastsTakeover lets a forsd lead again after a decision that the other
// one never heard of, for example because forsd was killed. The decision stays in force.
func TestDecisionOutlastsTakeover(t *testing.T) {
	f := fabric(4, 4)
	w := newTwins(t, f)
	for i, d := range []*Daemon{w.leader, w.follower} {
		ok(t, d.inbox.between(t.Context(), func(context.Context, turn) { ok(t, d.store.Decide("others", i)) }))
		w.sync(t, "")
	}
	ok(t, w.follower.inbox.between(t.Context(), func(context.Context, turn) { ok(t, w.follower.store.Decide("others", 7)) }))
	w.leader.managerIs(t, false)
	w.takeOver(t, f)
	got := 0
	ok(t, w.follower.inbox.between(t.Context(), func(context.Context, turn) { ok(t, w.follower.store.Decision("others", &got)) }))
	if got != 7 {
		t.Errorf("7 was decided last, and %d is in force", got)
	}
}

// TestIsolatedTravels checks that a follower withholds exactly the cables that the leader
// has isolated.
func TestIsolatedTravels(t *testing.T) {
	w := newTwins(t, fabric(4, 4))
	w.follower.cables.Settings.Mode = cablehealth.Isolate
	c := w.leader.state.Now().Latest.Cables([]controller.Lane{{Leaf: 1, Lane: 2}})[0].Lower.End
	kept := &cables.Kept{Cables: []cables.KeptCable{{Cable: cablehealth.Cable{Leaf: c, Spine: ib.End{GUID: 1, Port: 2}},
		Record: cablehealth.Record{State: cablehealth.Isolated, Since: time.Now(), Why: []string{"errors"}}}}}
	for _, what := range []*cables.Kept{kept, nil} {
		ok(t, w.leader.inbox.between(t.Context(), func(context.Context, turn) {
			ok(t, w.leader.store.Decide(cableDecisions, what))
		}))
		w.sync(t, "")
		ok(t, w.follower.inbox.between(t.Context(), func(_ context.Context, f turn) {
			if f.loop.excluder.excluded.Has(exclusions.Isolated, c) != (what != nil) {
				t.Errorf("the leader has %+v, and the follower withholds %+v", what, f.cables.Withheld())
			}
			if held := f.loop.core.Held(); what != nil && !slices.Equal(held, []controller.Lane{{Leaf: 1, Lane: 2}}) {
				t.Errorf("the follower plans ahead with %v held back", held)
			}
		}))
	}
}

// TestDrainedTravels checks that a follower withholds exactly the parts that the leader
// has drained, even if the last drain was given back just before it leads.
func TestDrainedTravels(t *testing.T) {
	w := newTwins(t, fabric(4, 4))
	c := w.leader.state.Now().Latest.Cables([]controller.Lane{{Leaf: 1, Lane: 2}})[0].Lower.End
	drain := exclusions.Drain{Part: exclusions.Part{Kind: exclusions.Cable, GUID: c.GUID, Port: c.Port}, Name: "Leaf001/7", State: exclusions.Safe}
	for _, list := range [][]exclusions.Drain{{drain}, nil} {
		ok(t, w.leader.inbox.between(t.Context(), func(context.Context, turn) { ok(t, w.leader.store.Decide(drainsDecided, list)) }))
		w.sync(t, "")
		ok(t, w.follower.inbox.between(t.Context(), func(_ context.Context, f turn) {
			if f.loop.excluder.excluded.Has(exclusions.Drained, c) != (list != nil) || len(f.loop.core.Held()) != len(list) {
				t.Errorf("drained are %v, and the follower plans ahead with %v held back", list, f.loop.core.Held())
			}
		}))
	}
}

// FuzzReplica decodes arbitrary answers. A fabric from a valid answer is consistent: it
// can be seen through a baseline.
func FuzzReplica(f *testing.F) {
	small := fabgen.Generate(fabgen.Spec{Spines: 1, Leaves: 2, Hosts: []int{1}, LMC: 1})
	whole, err := json.Marshal(replica.Replica{Leads: true, Last: 1, Whole: true, Fabric: small})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"fabric":{"Nodes":[{"Kind":2,"GUID":"0x0000000000000001","Ports":[{},{"Peer":0,"PeerPort":1}]}]}}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		r := &replica.Replica{}
		if json.Unmarshal(data, r) != nil || r.Fabric == nil {
			return
		}
		g, err := r.CheckedFabric()
		if err != nil {
			return
		}
		if base, err := topology.NewBaseline(g); err == nil {
			_, _ = view.New(g, base, &config.Planning{})
		}
	})
}

// TestLaterPlansStay checks a forsd that was killed just after it had published plans for
// base LIDs and of a job, and adopts a state without them. Clients get no plan with a
// lower number.
func TestLaterPlansStay(t *testing.T) {
	w := newTwins(t, fabric(4, 4))
	_, err := backend.Jobs{Parts: &w.leader.backend.Parts}.CreateJob(t.Context(), api.JobRequest{Name: "a", Hosts: names(0, 5), LeaseSeconds: 60})
	ok(t, err)
	const last = 50
	ok(t, w.leader.inbox.between(t.Context(), func(context.Context, turn) { w.leader.store.Disk.Numbers.AdvanceTo(last) }))
	w.sync(t, "")
	d := w.follower
	ok(t, d.inbox.between(t.Context(), func(context.Context, turn) {
		later := func(v *phasetable.View) *phasetable.View {
			table := v.Table()
			table.Epoch = last
			plan, err := phasetable.New(table)
			ok(t, err)
			return plan
		}
		base := *d.state.Now().Base
		base.Plan = later(base.Plan)
		ok(t, d.state.PutBase(&base, nil))
		j := *d.state.Now().Jobs[0]
		j.Plan, j.Epoch, j.Base, j.BaseEpoch = later(j.Plan), last, base.Plan, last
		ok(t, d.state.PutJob(&j))
	}))
	w.sync(t, "")
	ok(t, d.inbox.between(t.Context(), func(context.Context, turn) {
		if now := d.state.Bases.Current(); now != nil && now.Epoch < last {
			t.Errorf("plan %d for base LIDs is in force after plan %d", now.Epoch, last)
		}
		if j := d.state.Now().Jobs[0]; j.Epoch < last || j.BaseEpoch < last {
			t.Errorf("job plans %d and %d are in force after %d", j.Epoch, j.BaseEpoch, last)
		}
	}))
}
