package daemon

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// serving runs the daemon's loop until the end of the test. The fabric does not change.
func (d *Daemon) serving(t testing.TB) backend.Jobs {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { d.run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return backend.Jobs{Parts: &d.backend.Parts}
}

// atRest brings a fabric up through the controller, action by action.
func (d *Daemon) atRest(t testing.TB, f *topology.Fabric) *view.View {
	t.Helper()
	d.dumpSeen(t.Context(), dump(f))
	d.drive(t, f)
	return d.state.Now().Latest
}

// drive plays the manager until the controller is idle. The manager sweeps when told to,
// and the switches hold the tables in the table file.
func (d *Daemon) drive(t testing.TB, f *topology.Fabric) {
	t.Helper()
	for d.core.State() != controller.Idle {
		if d.core.State() == controller.Sweeping {
			d.dumpSeen(t.Context(), dump(f))
			continue
		}
		d.step(t.Context(), d.next(t.Context(), t))
	}
}

// readable makes the daemon read the switches' tables from the table file, and use this
// process as the manager.
func readable(d *Daemon) *Daemon {
	d.cfg.OpenSM.DumpCommand = []string{"cat", d.cfg.OpenSM.LFTsFile}
	d.manager.Finder = self{}
	return d
}

// hangups catches the signals to the manager. Ignoring them would make child processes
// ignore them too.
var hangups = make(chan os.Signal, 1)

func init() { signal.Notify(hangups, syscall.SIGHUP) }

// self is a finder that finds this process.
type self struct{}

func (self) Find(context.Context) (opensm.Process, error) { return opensm.Inspect(os.Getpid()) }

func names(first, last int) (out []string) {
	for i := first; i <= last; i++ {
		out = append(out, fmt.Sprintf("Hca%04d", i))
	}
	return out
}

// holds fails unless the plan of a job is conflict-free on the tables.
func holds(t *testing.T, v *view.View, j *state.Job, tables *lft.Tables) {
	t.Helper()
	var members []ib.GUID
	for s := range j.Plan.Servers() {
		members = append(members, j.Plan.Server(s).GUID)
	}
	sub := planner.Restrict(v.Tree, members)
	rows, err := view.RowsOf(j.Plan, sub)
	ok(t, err, verify.Plan(sub, tables, rows, nil))
}

// make creates a job; the test takes the place of the loop.
func (d *Daemon) make(t *testing.T, name string, hosts []string) *state.Job {
	t.Helper()
	j, err := d.tryMake(api.JobRequest{Name: name, Hosts: hosts, RanksPerHost: 1, LeaseSeconds: 3600})
	ok(t, err)
	return d.job(t, strconv.FormatUint(j.ID, 10))
}

// tryMake is make for any request, including one that is refused.
func (d *Daemon) tryMake(q api.JobRequest) (j *api.Job, err error) {
	done := make(chan struct{})
	go func() {
		j, err = backend.Jobs{Parts: &d.backend.Parts}.CreateJob(context.Background(), q)
		close(done)
	}()
	for {
		select {
		case call := <-d.inbox.calls:
			call(context.Background(), d.loop)
			for at, rests := d.loop.atRest(); rests && len(d.waiting) > 0; at, rests = d.loop.atRest() {
				run := d.waiting[0]
				d.waiting = d.waiting[1:]
				run(context.Background(), at)
			}
		case <-done:
			return j, err
		}
	}
}

func (d *Daemon) job(t *testing.T, name string) *state.Job {
	t.Helper()
	j, err := d.state.Now().Job(name)
	ok(t, err)
	return j
}

// warning returns the text of a warning in force, or "".
func (d *Daemon) warning(code string) string {
	for _, w := range d.health.List(time.Now().Add(time.Hour)) {
		if w.Code == code {
			return w.Text
		}
	}
	return ""
}

// TestJobsFollow removes and restores a cable of one of two jobs. The affected job gets a
// new plan that holds on the old and the new tables once these have been ordered. After
// the read-back it gets another one, under the number of the fabric's plan. The other job
// keeps its plan.
func TestJobsFollow(t *testing.T) {
	healthy := fabric(4, 4)
	d := readable(newDaemon(t))
	v := d.atRest(t, healthy)
	near, far := d.make(t, "near", names(0, 7)), d.make(t, "far", names(8, 15))
	if near.ID != 2 || near.Epoch != 2 || far.ID != 3 || far.Plan.Job() != 3 || d.state.Now().EpochNumber() != 1 {
		t.Fatalf("jobs %+v and %+v beside epoch %d", near.JobInfo, far.JobInfo, d.state.Now().EpochNumber())
	}
	old := d.desk.InSwitches()
	holds(t, v, near, old)
	holds(t, v, far, old)

	cut := lacking(healthy, 4, 0, 2)
	d.dumpSeen(t.Context(), dump(cut))
	for d.core.State() != controller.Signalling {
		if d.job(t, "near").Epoch != near.Epoch {
			t.Fatalf("in state %s the job has another plan already: the tables wait for it", d.core.State())
		}
		d.step(t.Context(), d.next(t.Context(), t))
	}
	d.step(t.Context(), d.next(t.Context(), t))
	before := d.job(t, "near")
	if before.Epoch != d.state.Now().EpochNumber() || before.Epoch != 4 || before.ID != 2 {
		t.Errorf("before the read-back the job has epoch %d, the fabric %d", before.Epoch, d.state.Now().EpochNumber())
	}
	holds(t, d.state.Now().Latest, before, old)
	d.drive(t, cut)
	holds(t, d.state.Now().Latest, before, d.desk.InSwitches())
	if now := d.job(t, "near"); now.Epoch != before.Epoch {
		t.Errorf("the job's plan of epoch %d was replaced by %d after the read-back", before.Epoch, now.Epoch)
	}

	d.dumpSeen(t.Context(), dump(healthy))
	for d.core.State() != controller.After {
		if d.job(t, "near").Epoch != before.Epoch {
			t.Fatalf("in state %s the job has another plan already", d.core.State())
		}
		if d.core.State() == controller.Sweeping {
			d.dumpSeen(t.Context(), dump(healthy))
		} else {
			d.step(t.Context(), d.next(t.Context(), t))
		}
	}
	d.drive(t, healthy)
	if now := d.job(t, "near"); now.Epoch != 5 || now.Epoch != d.state.Now().EpochNumber() {
		t.Errorf("after the read-back the job has epoch %d, the fabric %d", now.Epoch, d.state.Now().EpochNumber())
	} else {
		holds(t, d.state.Now().Latest, now, d.desk.InSwitches())
	}
	if now := d.job(t, "far"); now.Epoch != far.Epoch {
		t.Errorf("a cable of another job's leaf gave the job epoch %d", now.Epoch)
	}
}

// TestJobLosesHosts removes hosts from a job one by one, and restores them.
func TestJobLosesHosts(t *testing.T) {
	healthy := fabric(4, 4)
	d := readable(newDaemon(t))
	d.cfg.Planning.Exclude = nil
	d.atRest(t, healthy)
	d.make(t, "", []string{"Hca0000", "Hca0005"})
	gone := healthy.Clone()
	for i, want := range []string{"Hca0000 ", "none of its hosts is attached"} {
		what, err := gone.Fail(names(0, 5)[5*i])
		ok(t, err)
		d.dumpSeen(t.Context(), dump(gone))
		d.drive(t, gone)
		if text := d.warning(state.JobHostsMissing); !strings.Contains(text, "job 2: ") || !strings.Contains(text, want) {
			t.Errorf("without %s the warning says %q", what, text)
		}
		if j := d.job(t, "2"); j.Plan.Servers() != 1 || len(j.Missing()) != 1 {
			t.Errorf("without %s the job has %d servers and misses %v", what, j.Plan.Servers(), j.Missing())
		}
	}
	d.dumpSeen(t.Context(), dump(healthy))
	d.drive(t, healthy)
	if text, j := d.warning(state.JobHostsMissing), d.job(t, "2"); text != "" || j.Plan.Servers() != 2 || j.Report.Phases != 1 {
		t.Errorf("with all hosts back the job has %d servers and %d phases; the warning says %q", j.Plan.Servers(), j.Report.Phases, text)
	}
}

// TestJobsWithFewLIDs plans a job on tables that belong to the fabric's plan. When a
// cable is lost, the tables come first, then both plans.
func TestJobsWithFewLIDs(t *testing.T) {
	healthy := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4})
	d := readable(newDaemon(t))
	v := d.atRest(t, healthy)
	j := d.make(t, "", names(2, 11))
	holds(t, v, j, d.desk.InSwitches())
	cut := lacking(healthy, 4, 1, 2)
	d.dumpSeen(t.Context(), dump(cut))
	d.drive(t, cut)
	now := d.job(t, "2")
	holds(t, d.state.Now().Latest, now, d.desk.InSwitches())
	if now.Epoch <= j.Epoch {
		t.Errorf("the job has epoch %d by engine %s", now.Epoch, now.Report.Engine)
	}
}

// TestJobsPersist restarts the daemon. Jobs are restored unchanged, and no number is
// given twice although the job with the highest one was removed.
func TestJobsPersist(t *testing.T) {
	dir := t.TempDir()
	d := readable(daemonIn(t, dir))
	healthy := fabric(4, 4)
	d.atRest(t, healthy)
	kept, gone := d.make(t, "kept", names(0, 3)), d.make(t, "gone", names(4, 7))
	d.store.EndJob(gone, "removed")
	ok(t, d.store.Close())
	d = readable(daemonIn(t, dir))
	if len(d.state.Now().Jobs) != 1 || d.store.Disk.Numbers.Last() != gone.Epoch {
		t.Fatalf("%d jobs, last number %d", len(d.state.Now().Jobs), d.store.Disk.Numbers.Last())
	}
	back := d.job(t, "kept")
	if diff := cmp.Diff(kept.JobInfo, back.JobInfo); diff != "" || string(kept.Plan.Bytes()) != string(back.Plan.Bytes()) {
		t.Errorf("the job came back different (-want +got):\n%s", diff)
	}
	if p := back.Plans.Current(); p == nil || p.Epoch != kept.Epoch {
		t.Errorf("its plan in force is %+v", p)
	}
	d.atRest(t, healthy)
	if d.job(t, "kept").Epoch != back.Epoch || d.state.Now().EpochNumber() != 1 {
		t.Errorf("on the same fabric epoch %d and job's epoch %d came out", d.state.Now().EpochNumber(), d.job(t, "kept").Epoch)
	}
	if j := d.make(t, "", names(4, 7)); j.ID != gone.ID+1 {
		t.Errorf("number %d follows %d", j.ID, gone.ID)
	}
}

// TestJobsLagBehind stops the daemon when the fabric's plan is in force but the jobs'
// plans are not. They follow at the next start, under another number.
func TestJobsLagBehind(t *testing.T) {
	dir := t.TempDir()
	d := readable(daemonIn(t, dir))
	healthy := fabric(4, 4)
	d.atRest(t, healthy)
	d.make(t, "a", names(0, 7))
	cut := lacking(healthy, 4, 0, 2)
	v := d.see(t, cut)
	if e := d.actions.plans.Plan(context.Background(), controller.Plan{Fabric: v.Snapshot()}).(controller.Planned); e.Err != "" {
		t.Fatal(e.Err)
	}
	ends, end := context.WithCancel(context.Background())
	end()
	ok(t, d.actions.plans.Publish(ends), d.store.Close())
	d = readable(daemonIn(t, dir))
	d.atRest(t, cut)
	j := d.job(t, "a")
	if d.state.Now().EpochNumber() != 3 || j.Epoch <= 3 {
		t.Errorf("the fabric has epoch %d, the job %d", d.state.Now().EpochNumber(), j.Epoch)
	}
	holds(t, d.state.Now().Latest, j, d.desk.InSwitches())
}
