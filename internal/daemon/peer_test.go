package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/standby/replica"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// twins is a leading daemon and its follower. Their loops run. The tests do the
// follower's periodic work.
type twins struct {
	leader, follower *Daemon
	api              *httptest.Server // of the leader
}

// join gives the daemon a peer at an address. The daemon leads, or waits for Start.
func (d *Daemon) join(t *testing.T, url string, leads bool) {
	t.Helper()
	p, err := replica.Dial(url, api.Credentials{})
	ok(t, err)
	t.Cleanup(p.Client.Close)
	p.Desk.Claimed = d.inbox.peerClaims
	d.actions.plans.Paired = true
	d.standby = standby.New(standby.Settings{Peer: url, TakeoverWait: 5 * time.Second, Salt: rand.Uint32()})
	if d.peer = p; !leads {
		return
	}
	for _, e := range []standby.Event{standby.Start{}, standby.Manager{Master: true}, standby.Answered{Serial: 2, Err: "nobody is there"}} {
		for _, a := range d.standby.Step(time.Now(), e) {
			if a, question := a.(standby.Ask); question {
				p.Put(a)
			}
		}
	}
	if d.standby.Role() != standby.Leads {
		t.Fatal("it does not lead")
	}
}

// hear asks the next question and lets the daemon handle the answer.
func (d *Daemon) hear(t *testing.T) {
	t.Helper()
	a := <-d.peer.Asks
	a.Wait = 0
	r, err := replica.Ask(t.Context(), d.peer.Client, a)
	ok(t, d.inbox.between(t.Context(), func(ctx context.Context, at turn) { at.peerSays(ctx, a.Serial, r, err) }))
}

// told gives the daemon an answer to the next question, and returns the daemon's
// objection.
func (d *Daemon) told(t *testing.T, r *replica.Replica) (err error) {
	t.Helper()
	a := <-d.peer.Asks
	ok(t, d.inbox.between(t.Context(), func(ctx context.Context, at turn) { at.peerSays(ctx, a.Serial, r, nil) }))
	for _, w := range d.health.List(time.Now().Add(time.Hour)) {
		if w.Code == standby.PeerLost {
			err = errors.New(w.Text)
		}
	}
	return err
}

// managerIs sets whether the daemon's manager is the master.
func (d *Daemon) managerIs(t *testing.T, master bool) {
	t.Helper()
	ok(t, d.inbox.call(t.Context(), func(ctx context.Context, _ *loop) { d.stepStandby(ctx, standby.Manager{Master: master}) }))
}

// newTwins returns twins whose leader has brought up a fabric.
func newTwins(t *testing.T, f *topology.Fabric) *twins {
	t.Helper()
	w := &twins{leader: readable(newDaemon(t)), follower: readable(newDaemon(t))}
	w.follower.cfg.OpenSM.DumpCommand = w.leader.cfg.OpenSM.DumpCommand // the same switches
	w.leader.atRest(t, f)
	follower := w.follower
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.Answer(follower.peer.Desk.Answer).ServeHTTP(w, r)
	}))
	t.Cleanup(back.Close)
	w.leader.join(t, back.URL, true)
	w.leader.serving(t)
	w.api = httptest.NewServer(server.Answer(w.leader.peer.Desk.Answer))
	t.Cleanup(w.api.Close)
	w.follower.join(t, w.api.URL, false)
	w.follower.stepStandby(t.Context(), standby.Start{})
	w.follower.serving(t)
	return w
}

// sync lets the follower adopt the state that it does not have, and waits until it has
// planned ahead.
func (w *twins) sync(t *testing.T, have string) *replica.Replica {
	t.Helper()
	r, err := replica.Ask(t.Context(), w.follower.peer.Client, standby.Ask{Have: have})
	ok(t, err)
	if r.Whole {
		ok(t, w.follower.told(t, r))
	}
	ok(t, w.follower.inbox.between(t.Context(), func(_ context.Context, _ turn) {}))
	return r
}

// same fails unless both daemons have the same state, in memory and on disk.
func (w *twins) same(t *testing.T) {
	t.Helper()
	for _, d := range []*Daemon{w.leader, w.follower} {
		ok(t, d.inbox.between(t.Context(), func(_ context.Context, _ turn) {}))
	}
	state := func(d *Daemon) string {
		e, damaged := d.store.Disk.Epochs.Current()
		jobs, damagedJobs := d.store.Disk.Jobs.All()
		base, err := d.store.Disk.Baseline()
		ok(t, damaged, damagedJobs, err)
		if in := d.state.Now().Epoch; in.Epoch != e.Epoch || !bytes.Equal(in.Plan.Bytes(), e.Plan.Bytes()) || d.state.Plans.Current().Epoch != e.Epoch {
			t.Errorf("epoch %d is stored, %d in force, and %d handed out", e.Epoch, in.Epoch, d.state.Plans.Current().Epoch)
		}
		text := fmt.Sprintf("%+v %x %s\n", e.EpochInfo, e.Plan.Bytes(), base.Encode())
		if inForce := d.state.Now().Base; inForce != nil {
			onBase := inForce.Plan
			stored, err := d.store.Disk.Base()
			ok(t, err)
			text += fmt.Sprintf("%d %x\n", onBase.Epoch(), stored.Bytes())
			if now := d.state.Bases.Current(); now == nil || now.Epoch != onBase.Epoch() || !bytes.Equal(stored.Bytes(), onBase.Bytes()) {
				t.Errorf("plan %d for base LIDs is in force, and is not stored or not handed out", onBase.Epoch())
			}
		}
		if list := d.state.Now().Jobs; len(list) != len(jobs) {
			t.Errorf("%d jobs are stored, and %d in force", len(jobs), len(list))
		}
		for _, j := range jobs {
			at := j.Expires.UnixNano()
			j.Created, j.Expires, j.PublishedAt = time.Time{}, time.Time{}, time.Time{}
			text += fmt.Sprintf("%+v %d %x\n", j.JobInfo, at, j.Plan.Bytes())
		}
		return text
	}
	if a, b := state(w.leader), state(w.follower); a != b {
		t.Errorf("the leader has\n%.2000s\nthe follower\n%.2000s", a, b)
	}
	if a, b := w.leader.store.Disk.Numbers.Last(), w.follower.store.Disk.Numbers.Last(); a != b {
		t.Errorf("the last number is %d, and the follower's %d", a, b)
	}
}

// TestFollow checks that a follower has the state of the leader: the plan, jobs that are
// created, renewed and removed, and a dead cable. It makes the same tables, and changes
// nothing else.
func TestFollow(t *testing.T) {
	f := fabric(4, 4)
	w := newTwins(t, f)
	jobs := backend.Jobs{Parts: &w.leader.backend.Parts}
	_, err := jobs.CreateJob(t.Context(), api.JobRequest{Name: "a", Hosts: names(0, 2), LeaseSeconds: 60})
	ok(t, err)
	gone, err := jobs.CreateJob(t.Context(), api.JobRequest{Name: "b", Hosts: names(3, 5), LeaseSeconds: 60})
	ok(t, err)
	r := w.sync(t, "")
	w.same(t)
	if w.follower.state.Now().Base == nil {
		t.Error("the follower has no plan for base LIDs")
	}
	if !r.Leads || !r.Whole {
		t.Errorf("the leader says %+v", r)
	}
	a, err := os.ReadFile(w.leader.cfg.OpenSM.LFTsFile)
	ok(t, err)
	b, err := os.ReadFile(w.follower.cfg.OpenSM.LFTsFile)
	ok(t, err)
	if !bytes.Equal(a, b) {
		t.Error("the follower has other tables ready than the leader has written")
	}
	if tables, err := w.follower.desk.Serve(t.Context(), w.follower.state.Now().Latest.ID); err != nil || tables == nil {
		t.Errorf("the follower has no tables ready for a sweep: %v", err)
	}
	if again := w.sync(t, r.Tag); again.Whole || again.Tag != r.Tag || again.Epoch != nil {
		t.Errorf("nothing has changed, and the leader says %+v", again)
	}
	if s := w.follower.backend.Status(); !s.Ready || !s.OpenSM.Standby {
		t.Errorf("the follower says %+v", s)
	}

	plans, _, err := backend.Jobs{Parts: &w.follower.backend.Parts}.JobPlans("b")
	ok(t, err)
	_, err = jobs.RemoveJob(t.Context(), fmt.Sprint(gone.ID))
	ok(t, err)
	_, err = jobs.RenewJob(t.Context(), "a", time.Hour)
	ok(t, err)
	for state := controller.Sweeping; state != controller.Idle; {
		if state == controller.Sweeping {
			ok(t, w.leader.inbox.call(t.Context(), func(_ context.Context, _ *loop) { w.leader.dumpSeen(t.Context(), dump(lacking(f, 4, 1, 2))) }))
		}
		ok(t, w.leader.inbox.between(t.Context(), func(_ context.Context, _ turn) { state = w.leader.core.State() }))
	}
	if r = w.sync(t, r.Tag); !r.Whole {
		t.Errorf("all has changed, and the leader says %+v", r)
	}
	w.same(t)
	if plans.Current() != nil {
		t.Error("the plan of a job that has gone is in force")
	}
	w.refuses(t)
}

// refuses sends the follower the requests that only a leader carries out.
func (w *twins) refuses(t *testing.T) {
	t.Helper()
	b, jobs := w.follower.backend, backend.Jobs{Parts: &w.follower.backend.Parts}
	for what, ask := range map[string]func() error{
		"reroute":  func() error { _, err := b.Reroute(t.Context()); return err },
		"rollback": func() error { _, err := b.Rollback(t.Context(), 1); return err },
		"accept": func() error {
			_, err := w.follower.backend.Accept(t.Context())
			return err
		},
		"job":    func() error { _, err := jobs.CreateJob(t.Context(), api.JobRequest{Hosts: names(0, 1)}); return err },
		"renew":  func() error { _, err := jobs.RenewJob(t.Context(), "a", time.Hour); return err },
		"remove": func() error { _, err := jobs.RemoveJob(t.Context(), "a"); return err },
	} {
		var refused *api.Error
		if err := ask(); !errors.As(err, &refused) || refused.Code != api.CodeRefused {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.same(t)
}

// takeOver makes the follower's manager the master, and waits until the follower leads.
// The manager then shows its fabric.
func (w *twins) takeOver(t *testing.T, f *topology.Fabric) {
	t.Helper()
	d := w.follower
	d.managerIs(t, true)
	for d.state.Now().Standby {
		d.hear(t)
	}
	ok(t, d.inbox.call(t.Context(), func(ctx context.Context, _ *loop) {
		v, err := d.view(d.observe(ctx, linkstate.Shown{Fabric: f, Swept: true}))
		if err != nil {
			t.Error(err)
			return
		}
		d.show(ctx, v, true)
	}))
	ok(t, d.inbox.between(t.Context(), func(_ context.Context, _ turn) {}))
}

// TestTakeOver moves the mastership while the leader answers. Its last change is not
// lost, although the follower has not seen it, and nothing is published if nothing has
// changed.
func TestTakeOver(t *testing.T) {
	f := fabric(4, 4)
	w := newTwins(t, f)
	w.sync(t, "")
	_, err := backend.Jobs{Parts: &w.leader.backend.Parts}.CreateJob(t.Context(), api.JobRequest{Name: "late", Hosts: names(0, 2)})
	ok(t, err)
	w.leader.managerIs(t, false)
	w.takeOver(t, f)
	w.same(t)
	j, err := backend.Jobs{Parts: &w.follower.backend.Parts}.CreateJob(t.Context(), api.JobRequest{Hosts: names(3, 5)})
	ok(t, err)
	if want := w.leader.store.Disk.Numbers.Last() + 1; j.Epoch != want {
		t.Errorf("the next number is %d, not %d", j.Epoch, want)
	}
}

// TestTakeOverInDoubt moves the mastership while the leader does not answer. The plans in
// force are published under a number that the leader cannot have given, and numbers
// continue from there. The old leader learns of them when it returns.
func TestTakeOverInDoubt(t *testing.T) {
	f := fabric(4, 4)
	w := newTwins(t, f)
	_, err := backend.Jobs{Parts: &w.leader.backend.Parts}.CreateJob(t.Context(), api.JobRequest{Name: "a", Hosts: names(0, 2)})
	ok(t, err)
	w.sync(t, "")
	old := w.follower.state.Now().Epoch
	w.api.Close()
	began := uint64(time.Now().UnixMilli())
	w.takeOver(t, f)
	e, job := w.follower.state.Now().Epoch, w.follower.state.Now().Jobs[0]
	if now := uint64(time.Now().UnixMilli()); e.Epoch < began || e.Epoch > now || job.Epoch != e.Epoch {
		t.Errorf("epoch %d, of the job %d: want one number from %d to %d", e.Epoch, job.Epoch, began, now)
	}
	if !view.SameRows(old.Plan, w.follower.state.Now().Latest.Tree, rows(t, e, w.follower)) {
		t.Error("nothing has changed, and the plan is another one")
	}
	j, err := backend.Jobs{Parts: &w.follower.backend.Parts}.CreateJob(t.Context(), api.JobRequest{Hosts: names(3, 5)})
	ok(t, err)
	if j.Epoch != e.Epoch+1 {
		t.Errorf("after epoch %d comes %d", e.Epoch, j.Epoch)
	}

	// Now in the other direction.
	w.leader, w.follower = w.follower, w.leader
	w.follower.managerIs(t, false)
	w.sync(t, "")
	w.same(t)
	if err := w.follower.told(t, &replica.Replica{Tag: "old", Leads: true, Whole: true, Last: 1}); err == nil {
		t.Error("a peer whose numbers are behind is followed")
	}
}

// TestYield lets a leader learn that the other daemon has led. It follows that one, and
// leads again with the other's state when the other stops leading and its own manager is
// still the master.
func TestYield(t *testing.T) {
	t.Parallel()
	f := fabric(4, 4)
	w := newTwins(t, f)
	w.sync(t, "")
	w.takeOver(t, f) // the leader does not notice
	_, err := backend.Jobs{Parts: &w.follower.backend.Parts}.CreateJob(t.Context(), api.JobRequest{Hosts: names(0, 2)})
	ok(t, err)
	ok(t, err)
	behind := w.leader
	behind.hear(t)
	if !behind.state.Now().Standby {
		t.Fatal("it goes on with numbers that have been given")
	}
	behind.hear(t)
	w.same(t)
	w.follower.managerIs(t, false)
	for behind.state.Now().Standby {
		behind.hear(t)
	}
	w.same(t)
	behind.hear(t)
	if behind.state.Now().Standby {
		t.Error("it yields to its equal")
	}
	behind.managerIs(t, false)
	if behind.hear(t); !behind.state.Now().Standby {
		t.Error("it leads, and its manager is not the master")
	}
}

// TestYieldsOnItsFabric lets a leader yield whose manager has found a dead cable, to a
// daemon with higher numbers that has not. When it leads again, at once or after it has
// followed, its plan is for its own manager's fabric.
func TestYieldsOnItsFabric(t *testing.T) {
	t.Parallel()
	for _, follows := range []bool{false, true} {
		f := fabric(4, 4)
		less := lacking(f, 4, 1, 2)
		w := newTwins(t, f)
		w.sync(t, "")
		w.takeOver(t, f) // the leader does not notice
		d := w.leader
		ok(t, d.inbox.call(t.Context(), func(ctx context.Context, l *loop) { l.seenBy(ctx, less) }))
		d.sweeps(t, less)
		for d.state.Now().EpochNumber() >= w.follower.state.Now().EpochNumber() {
			_, err := w.follower.backend.Rollback(t.Context(), 1)
			ok(t, err)
		}
		d.hear(t)
		if !d.state.Now().Standby {
			t.Fatal("it goes on with numbers that have been given")
		}
		if follows {
			d.hear(t)
		}
		given := w.follower.store.Disk.Numbers.Last()
		w.follower.managerIs(t, false)
		for d.state.Now().Standby {
			d.hear(t)
		}
		d.sweeps(t, less)
		e, v := d.state.Now().Epoch, d.state.Now().Latest
		if e.Epoch <= given || v.Fabric.Hash() != less.Hash() || e.Fabric != v.ID {
			t.Errorf("followed: %t; epoch %d after %d is for fabric %s, and its own is %s", follows, e.Epoch, given, e.Fabric, v.ID)
		}
	}
}

// sweeps lets the manager sweep as long as the controller requests it.
func (d *Daemon) sweeps(t *testing.T, f *topology.Fabric) {
	t.Helper()
	for state := controller.Sweeping; state != controller.Idle; {
		ok(t, d.inbox.call(t.Context(), func(ctx context.Context, l *loop) {
			if state = l.core.State(); state == controller.Sweeping {
				l.seenBy(ctx, f)
			}
		}))
	}
}

// seenBy lets the manager show a fabric at the end of a sweep.
func (l *loop) seenBy(ctx context.Context, f *topology.Fabric) {
	v, err := l.view(l.observe(ctx, linkstate.Shown{Fabric: f, Swept: true, Seen: time.Now()}))
	if err != nil {
		panic(err)
	}
	l.show(ctx, v, true)
}

// rows returns the rows of an epoch.
func rows(t *testing.T, e *store.Epoch, d *Daemon) (out verify.Rows) {
	t.Helper()
	out, err := view.RowsOf(e.Plan, d.state.Now().Latest.Tree)
	ok(t, err)
	return out
}

// TestReplicaWaits checks that an answer waits for news.
func TestReplicaWaits(t *testing.T) {
	w := newTwins(t, fabric(4, 4))
	r := w.sync(t, "")
	got := make(chan *replica.Replica)
	go func() {
		r, err := replica.Ask(t.Context(), w.follower.peer.Client, standby.Ask{Have: r.Tag, Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		got <- r
	}()
	_, err := backend.Jobs{Parts: &w.leader.backend.Parts}.CreateJob(t.Context(), api.JobRequest{Hosts: names(0, 2)})
	ok(t, err)
	if r := <-got; !r.Whole || len(r.Jobs) != 1 {
		t.Errorf("a job was created, and the leader says %+v", r)
	}
	brief, err := replica.Ask(t.Context(), w.follower.peer.Client, standby.Ask{Brief: true})
	if ok(t, err); brief.Whole || !brief.Leads {
		t.Errorf("in brief: %+v", brief)
	}
	if _, err := w.leader.peer.Desk.Answer(httptest.NewRequest(http.MethodGet, "/?wait=soon", nil)); err == nil {
		t.Error("wait=soon is accepted")
	}
}

// TestReplicaDamaged checks that a follower keeps its state if the leader's answer is
// inconsistent.
func TestReplicaDamaged(t *testing.T) {
	t.Parallel()
	w := newTwins(t, fabric(4, 4))
	_, err := backend.Jobs{Parts: &w.leader.backend.Parts}.CreateJob(t.Context(), api.JobRequest{Hosts: names(0, 2)})
	ok(t, err)
	w.sync(t, "")
	for name, damage := range map[string]func(*replica.Replica){
		"baseline":  func(r *replica.Replica) { r.Baseline.Version = 99 },
		"table":     func(r *replica.Replica) { r.Epoch.Table = r.Epoch.Table[:40] },
		"epoch":     func(r *replica.Replica) { r.Epoch.About.Epoch++ },
		"job":       func(r *replica.Replica) { r.Jobs[0].About.ID++ },
		"job table": func(r *replica.Replica) { r.Jobs[0].Table[len(r.Jobs[0].Table)-1] ^= 1 },
		"fabric":    func(r *replica.Replica) { r.Fabric.Nodes[0].Ports[1].Peer = -7 },
		"numbers":   func(r *replica.Replica) { r.Last = 0 },
		"base plan": func(r *replica.Replica) {
			plan, err := phasetable.Decode(r.Epoch.Table)
			ok(t, err)
			plan, err = plan.Numbered(plan.Job(), 1<<63, plan.TopologyHash())
			ok(t, err)
			r.BaseLIDs.Table = plan.Bytes()
		},
	} {
		r, err := replica.Ask(t.Context(), w.follower.peer.Client, standby.Ask{})
		ok(t, err)
		damage(r)
		if err := w.follower.told(t, r); err == nil {
			t.Errorf("%s: accepted", name)
		}
		w.same(t)
	}
}

// TestPeerLost checks the warning while the peer cannot be followed, and that it is
// followed again.
func TestPeerLost(t *testing.T) {
	w := newTwins(t, fabric(4, 4))
	d := w.follower
	address := w.api.Listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = askPeer(ctx, d.components) }()
	defer func() { cancel(); <-ended }()
	wait := func(what string, good func() bool) {
		t.Helper()
		for late := time.After(time.Minute); !good(); {
			select {
			case <-late:
				t.Fatal(what)
			case <-time.After(time.Millisecond):
			}
		}
	}
	raised := func() bool {
		for _, w := range d.health.List(time.Now().Add(time.Hour)) {
			if w.Code == standby.PeerLost {
				return true
			}
		}
		return false
	}
	wait("it does not follow", func() bool { return d.state.Now().EpochNumber() == 1 })
	_ = w.api.Listener.Close() // otherwise the client reconnects immediately
	w.api.CloseClientConnections()
	w.api.Close()
	wait("it does not miss the peer", raised)
	server := httptest.NewUnstartedServer(server.Answer(w.leader.peer.Desk.Answer))
	listener, err := net.Listen("tcp", address)
	ok(t, err)
	server.Listener = listener
	server.Start()
	defer server.Close()
	defer server.CloseClientConnections() // a long poll is under way
	defer server.Listener.Close()
	wait("it does not find the peer again", func() bool { return !raised() })
	_, err = backend.Jobs{Parts: &w.leader.backend.Parts}.CreateJob(t.Context(), api.JobRequest{Hosts: names(0, 2)})
	ok(t, err)
	wait("it does not follow", func() bool { return len(d.state.Now().Jobs) == 1 })
	if left, _ := filepath.Glob(filepath.Join(d.cfg.StateDir, "*", ".new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
