package daemon

import (
	"strings"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// ask creates a job while nothing else happens, and lets the tables follow.
func (d *Daemon) ask(t *testing.T, f *topology.Fabric, q api.JobRequest) *state.Job {
	t.Helper()
	j, err := d.tryMake(q)
	ok(t, err)
	d.rest(t, f)
	return d.job(t, j.Name)
}

// rest drives the daemon until neither the controller nor the jobs have work.
func (d *Daemon) rest(t *testing.T, f *topology.Fabric) {
	t.Helper()
	for range 8 {
		d.drive(t, f)
		if d.giveTurns(t.Context()); !d.core.Busy() {
			return
		}
	}
	t.Fatal("the daemon does not come to rest")
}

// lanesIn checks a table of a job on the tables in the switches, and adds the lanes that
// it uses at each leaf. With base, it must send only to base LIDs.
func (d *Daemon) lanesIn(t *testing.T, j *state.Job, table *phasetable.View, base bool, used map[[2]int]uint64) {
	t.Helper()
	v := d.state.Now().Latest
	sub := planner.Restrict(v.Tree, j.Guids())
	rows, err := view.RowsOf(table, sub)
	ok(t, err)
	ok(t, verify.Plan(sub, d.desk.InSwitches(), rows, nil))
	for i, dst := range rows.To {
		if dst < 0 {
			continue
		}
		src, to := &sub.Hosts[sub.Servers[i%len(sub.Servers)]], &sub.Hosts[sub.Servers[dst]]
		if base && rows.DLID[i] != to.LID {
			t.Fatalf("%s: a transfer goes to LID %d, not to the base LID of %s", j.Label(), rows.DLID[i], to.Name)
		}
		if rows.Lane[i] < 0 {
			continue
		}
		for _, leaf := range []int{src.Leaf, to.Leaf} {
			at := [2]int{leaf, int(rows.Lane[i])}
			if by := used[at]; by != 0 && by != j.ID {
				t.Fatalf("%s and job %d both use lane %d of leaf %d", j.Label(), by, at[1], leaf)
			}
			used[at] = j.ID
		}
	}
}

// apart checks that both plans of the jobs hold on the tables and share no lanes.
func (d *Daemon) apart(t *testing.T, names ...string) {
	t.Helper()
	used := map[[2]int]uint64{}
	for _, name := range names {
		j := d.job(t, name)
		d.lanesIn(t, j, j.Plan, false, used)
		now := j.Bases.Current()
		if now == nil {
			t.Fatalf("%s has no plan for base LIDs", name)
		}
		d.lanesIn(t, j, now.Table, true, used)
	}
}

// TestOwnLanes runs jobs concurrently on their own lanes, through a failure, which
// affects only the jobs with the cable, its repair, and a restart.
func TestOwnLanes(t *testing.T) {
	dir := t.TempDir()
	d := readable(daemonIn(t, dir))
	healthy := fabric(6, 4)
	d.atRest(t, healthy)
	a := d.ask(t, healthy, api.JobRequest{Name: "a", Hosts: names(0, 8), LeaseSeconds: 3600, OwnLanes: true})
	b := d.ask(t, healthy, api.JobRequest{Name: "b", Hosts: names(9, 15), LeaseSeconds: 3600, OwnLanes: true})
	d.ask(t, healthy, api.JobRequest{Name: "c", Hosts: names(16, 23), LeaseSeconds: 3600})
	d.apart(t, "a", "b", "c")
	if !a.Routed || len(a.Lanes) != 9 || len(b.Lanes) != 7 {
		t.Errorf("a holds %d lanes, b %d; a is routed: %t", len(a.Lanes), len(b.Lanes), a.Routed)
	}
	if s := d.job(t, "a").Summary(); s.Base == nil || s.Base.Phases != 8 || s.Phases != 8 || len(s.Lanes) != 2 || d.warning(state.JobSharesLanes) != "" {
		t.Errorf("the job is shown as %+v", s)
	}
	if base := d.state.Bases.Current(); base == nil {
		t.Error("the fabric has no plan for base LIDs")
	}

	// A cable of job a dies at the first leaf, where a has all hosts.
	before := map[string]*state.Job{}
	for _, name := range []string{"a", "b", "c"} {
		before[name] = d.job(t, name)
	}
	cut := lacking(healthy, 6, 0, 2)
	d.dumpSeen(t.Context(), dump(cut))
	d.rest(t, cut)
	d.apart(t, "a", "b", "c")
	for _, name := range []string{"b", "c"} {
		if now := d.job(t, name); now.Epoch != before[name].Epoch || now.BaseEpoch != before[name].BaseEpoch {
			t.Errorf("job %s was planned anew: epoch %d, before %d; for base LIDs %d, before %d", name, now.Epoch, before[name].Epoch, now.BaseEpoch, before[name].BaseEpoch)
		}
	}
	if now := d.job(t, "a"); now.Epoch == before["a"].Epoch || now.BaseEpoch == before["a"].BaseEpoch {
		t.Error("job a keeps a plan over a dead cable")
	}
	d.dumpSeen(t.Context(), dump(healthy))
	d.rest(t, healthy)
	d.apart(t, "a", "b", "c")

	// The next forsd resumes the jobs unchanged.
	kept := d.job(t, "b")
	ok(t, d.store.Close())
	d = readable(daemonIn(t, dir))
	d.dumpSeen(t.Context(), dump(healthy))
	d.rest(t, healthy)
	d.apart(t, "a", "b", "c")
	if now := d.job(t, "b"); now.Epoch != kept.Epoch || now.BaseEpoch != kept.BaseEpoch {
		t.Errorf("after a restart job b has epoch %d and base plan %d, before %d and %d", now.Epoch, now.BaseEpoch, kept.Epoch, kept.BaseEpoch)
	}

	// When the jobs have ended, the tables are as before.
	for _, name := range []string{"a", "b", "c"} {
		d.store.EndJob(d.job(t, name), "removed")
	}
	d.giveTurns(t.Context())
	d.rest(t, healthy)
	if v := d.state.Now().Latest; v.ID != v.Bare() {
		t.Errorf("the view is still %s", v.ID)
	}
}

// TestSharesLanes checks the warning if a job requests its own lanes and none are free.
func TestSharesLanes(t *testing.T) {
	t.Parallel()
	d := readable(newDaemon(t))
	healthy := fabric(4, 4)
	d.atRest(t, healthy)
	d.ask(t, healthy, api.JobRequest{Name: "all", Hosts: names(0, 6), LeaseSeconds: 3600, OwnLanes: true})
	cut := lacking(healthy, 4, 1, int(3))
	d.dumpSeen(t.Context(), dump(cut))
	d.rest(t, cut)
	j := d.ask(t, cut, api.JobRequest{Name: "late", Hosts: append(names(7, 7), names(8, 9)...), LeaseSeconds: 3600, OwnLanes: true})
	if len(j.Lanes) > 0 {
		t.Skipf("late has lanes of its own: %v", j.Lanes)
	}
	if text := d.warning(state.JobSharesLanes); !strings.Contains(text, "(late)") || !strings.Contains(text, "(all)") {
		t.Errorf("the warning says %q", text)
	}
}

// TestOwnLanesForLIDsAlone creates a job with its own lanes to which base LIDs cannot be
// routed, because there are only as many LIDs as lanes. A warning reports that, and ends
// with the job.
func TestOwnLanesForLIDsAlone(t *testing.T) {
	healthy := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	d := readable(newDaemon(t))
	d.atRest(t, healthy)
	j := d.ask(t, healthy, api.JobRequest{Name: "a", Hosts: names(0, 5), LeaseSeconds: 600, OwnLanes: true})
	if text := d.warning(state.JobSharesLanes); len(j.Lanes) == 0 || j.Routed || !strings.Contains(text, "for programs that choose LIDs alone") || !strings.Contains(text, "phases, that by lanes 5") {
		t.Errorf("a job with %d lanes, routed: %t; the warning says %q", len(j.Lanes), j.Routed, text)
	}
	d.store.EndJob(j, "removed")
	if text := d.warning(state.JobSharesLanes); text != "" {
		t.Errorf("after the job the warning says %q", text)
	}
}
