package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// pair brings up two managers with a forsd each; the first one is the master. The functions
// given prepare both before they start.
func pair(t *testing.T, o Options, prepare ...func(x, y *test)) (x, y *test, healthy *Sight) {
	t.Helper()
	o = byPlugin(t, o)
	o.Pair, o.Conf, o.Config = true, map[string]string{"sm_priority": "10"}, steady
	x = newSite(t, 3*time.Hour, o)
	second, err := x.Second(map[string]string{"sm_priority": "5"})
	x.ok(err)
	y = &test{t, second, x.ctx}
	t.Cleanup(func() {
		if t.Failed() {
			y.logs()
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, f := range prepare {
		f(x, y)
	}
	x.ok(y.StartForsd())
	y.until("it answers", func(*api.Status) bool { return true })
	x.ok(x.Start(x.ctx))
	x.settled(nil)
	healthy = x.check()
	x.ok(y.StartOpenSM(x.ctx))
	_, _, err = y.SM.WaitLog(x.ctx, "Entering STANDBY state", 0)
	x.ok(err)
	y.follows(x)
	return x, y, healthy
}

// leads waits until a site's forsd leads, and has done its work for a fabric that want
// accepts. Its manager has dumped that fabric then: forsd may be done before.
func (x *test) leads(want func(*api.Topology) error) *api.Status {
	x.Helper()
	x.until("it leads", func(s *api.Status) bool { return !s.OpenSM.Standby })
	x.settled(want)
	x.ok(x.SM.Sweep(x.ctx))
	return x.settled(want)
}

// follows waits until a site's forsd stands by and has the leading one's plan and
// fabric; both hand out the same bytes then.
func (x *test) follows(leader *test) {
	x.Helper()
	st := leader.settled(nil)
	x.until("it follows", func(s *api.Status) bool {
		return s.OpenSM.Standby && s.Ready && s.State == "idle" && s.Epoch == st.Epoch && s.TopologyHash == st.TopologyHash
	})
	theirs, err := leader.Client.Table(x.ctx)
	x.ok(err)
	ours, err := x.Client.Table(x.ctx)
	x.ok(err)
	if !bytes.Equal(theirs.Bytes(), ours.Bytes()) {
		x.Errorf("both say epoch %d, and hand out different plans", st.Epoch)
	}
}

// cables pulls one cable after the other, and puts the one before back.
type cables struct {
	*test
	tree *topology.FatTree
	n    int // pulled so far
}

// at is the n-th cable's leaf and lane: leaves and spines take turns, because OpenSM
// ignores a trap that it has had ten times within seconds of each other.
func (c *cables) at(n int) (leaf, lane int) { return n % len(c.tree.Leaves), 3 * n % c.tree.Lanes }

func (c *cables) move(act func(context.Context, string, int) error, n int) {
	c.Helper()
	leaf, lane := c.at(n)
	at := &c.tree.Leaves[leaf]
	c.ok(act(c.ctx, at.Name, int(at.Cables[lane].LeafPort)))
}

// next pulls the next cable, and returns the condition for the resulting fabric.
func (c *cables) next() func(*api.Topology) error {
	c.Helper()
	c.restore()
	c.move(c.Sim.Unlink, c.n)
	c.n++
	leaf, lane := c.at(c.n - 1)
	return Cable(leaf, lane, "missing")
}

// restore puts the last one back.
func (c *cables) restore() {
	c.Helper()
	if c.n > 0 {
		c.move(c.Sim.Relink, c.n-1)
	}
}

// lane is the lane of the missing cable.
func (c *cables) lane() int {
	_, lane := c.at(c.n - 1)
	return lane
}

// handover runs do, which makes the other site lead, with cables pulled and put back before
// and during it, and returns the resulting epoch, which is higher than the one given.
func (c *cables) handover(leader, follower *test, healthy *Sight, epoch uint64, do func()) uint64 {
	c.Helper()
	c.next()
	began := time.Now()
	do()
	want := c.next()
	st := leader.leads(want)
	c.Logf("the other site leads, at rest %v after the change, epoch %d", time.Since(began).Round(time.Millisecond), st.Epoch)
	leader.unmoved(healthy, leader.check(), c.lane())
	follower.follows(leader)
	if st.Epoch <= epoch {
		c.Errorf("epoch %d was in force, and after a cable was pulled %d is", epoch, st.Epoch)
	}
	return st.Epoch
}

// TestHandover hands the mastership back and forth between two managers: one is
// killed, and the other takes over; it is started again, and gets the mastership
// back. At first nothing changes, so that no entry of a table and no epoch does;
// then cables are pulled and put back before, during and after each.
func TestHandover(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(built.UmadHeader); err != nil {
		t.Skipf("the switches cannot be polled here: install libibumad-dev: %v", err)
	}
	x, y, healthy := pair(t, Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 8, Leaves: 6}), LMC: 3})
	epoch := x.quietly(y, healthy)
	load := &cables{test: x, tree: healthy.Tree}
	rounds := many(2, 5)
	for range rounds {
		epoch = load.handover(y, x, healthy, epoch, x.SM.Kill)
		epoch = load.handover(x, y, healthy, epoch, func() { x.ok(x.SM.Restart(x.ctx)) })
	}
	load.restore()
	leaf, lane := load.at(load.n - 1)
	x.settled(Cable(leaf, lane, "full"))
	x.unmoved(healthy, x.check())
	y.follows(x)
	oneWriter(x, y, 2*rounds)
}

// quietly hands the mastership to the other manager and back, with nothing else
// going on, while all tables are read without pause. It returns the epoch.
func (x *test) quietly(y *test, healthy *Sight) uint64 {
	x.Helper()
	program, err := poller()
	x.ok(err)
	p, err := x.Poll(program, healthy.Tree.Hosts[len(healthy.Tree.Hosts)/2].Name)
	x.ok(err)
	first := x.settled(nil)
	x.SM.Kill()
	second := y.leads(nil)
	y.check()
	x.follows(y)
	x.ok(x.SM.Restart(x.ctx))
	third := x.leads(nil)
	x.check()
	y.follows(x)
	rounds, err := p.Stop()
	x.ok(err)
	for _, r := range rounds {
		if len(r.Changes) > 0 {
			x.Fatalf("nothing has changed, and %d entries have, the first %+v", len(r.Changes), r.Changes[0])
		}
	}
	if first.Epoch != second.Epoch || second.Epoch != third.Epoch {
		x.Errorf("nothing has changed, and epoch %d became %d and %d", first.Epoch, second.Epoch, third.Epoch)
	}
	x.Logf("nothing changed in %d readings of all tables", len(rounds))
	return third.Epoch
}

// deed is an action of a forsd, by its log.
type deed struct {
	At      time.Time `json:"ts"`
	Message string    `json:"msg"`
	Code    string    `json:"code"`
	Epoch   uint64    `json:"epoch"`
	second  bool
}

// deeds reads a forsd's log: when it began and ceased to lead, and the plans that it published.
func (x *test) deeds() (all []deed) {
	x.Helper()
	text, err := os.ReadFile(filepath.Join(x.Dir(), "forsd.log"))
	x.ok(err)
	for line := range bytes.Lines(text) {
		d := deed{second: x.second != ""}
		if json.Unmarshal(line, &d) == nil && (d.Message == "forsd leads" || d.Message == "published" || d.Code == "manager-standby" && d.Message != "warning over") {
			all = append(all, d)
		}
	}
	return all
}

// oneWriter checks the logs of both forsd: they never lead at the same time, only the leader
// publishes, epochs only grow, and each handover is seen. Of one millisecond, in which the logs do
// not tell the order, the end of a lead counts as earlier than the beginning of another.
func oneWriter(x, y *test, handovers int) {
	x.Helper()
	var all []deed
	for a, b := x.deeds(), y.deeds(); len(a)+len(b) > 0; {
		if len(a) == 0 || len(b) > 0 && (b[0].At.Before(a[0].At) || b[0].At.Equal(a[0].At) && a[0].Message == "forsd leads") {
			all, b = append(all, b[0]), b[1:]
		} else {
			all, a = append(all, a[0]), a[1:]
		}
	}
	var leading [2]bool
	var epoch uint64
	changes, published := 0, 0
	for _, d := range all {
		me, other := 0, 1
		if d.second {
			me, other = other, me
		}
		switch d.Message {
		case "forsd leads":
			if leading[other] {
				x.Errorf("at %v both lead", d.At)
			}
			leading[me] = true
			changes++
		case "published":
			if !leading[me] || d.Epoch <= epoch {
				x.Errorf("at %v epoch %d is published after %d; leading: %v", d.At, d.Epoch, epoch, leading[me])
			}
			epoch = d.Epoch
			published++
		default:
			leading[me] = false
		}
	}
	x.Logf("the lead changed %d times, %d epochs were published", changes, published)
	if changes < handovers+2 || published <= handovers {
		x.Errorf("the lead changed %d times, and %d epochs were published: that is less than has happened", changes, published)
	}
}

// TestHostLost kills manager and forsd of the master at once, as if the host died: the other one
// leads with its copy of the plan, and publishes it again under a number that cannot have been
// given. When the first host is back it continues from there.
func TestHostLost(t *testing.T) {
	t.Parallel()
	x, y, healthy := pair(t, Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4}), LMC: 2})
	first, err := x.Client.Table(x.ctx)
	x.ok(err)
	began := uint64(time.Now().UnixMilli())
	x.ok(x.KillForsd(x.ctx))
	x.SM.Kill()
	st := y.leads(nil)
	if now := uint64(time.Now().UnixMilli()); st.Epoch < began || st.Epoch > now {
		t.Errorf("epoch %d: want a number from %d to %d", st.Epoch, began, now)
	}
	y.unmoved(healthy, y.check())
	again, err := y.Client.Table(x.ctx)
	x.ok(err)
	if !samePlan(first, again) {
		t.Error("the fabric is the same, and the plan is not")
	}
	y.warned("peer-unreachable")

	load := &cables{test: y, tree: healthy.Tree}
	st = y.settled(load.next())
	y.unmoved(healthy, y.check(), load.lane())
	x.ok(x.StartForsd())
	x.follows(y)
	x.ok(x.SM.Restart(x.ctx))
	if now := x.leads(nil); now.Epoch != st.Epoch {
		t.Errorf("epoch %d was in force, and after the handover %d is", st.Epoch, now.Epoch)
	}
	x.unmoved(healthy, x.check(), load.lane())
	y.follows(x)
}

// TestManagerHangs stops the master without ending it: the other one takes over, and
// when the first goes on and takes the mastership back, its forsd does not continue from
// its own state, but from the other one's.
func TestManagerHangs(t *testing.T) {
	t.Parallel()
	x, y, healthy := pair(t, Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4}), LMC: 2})
	x.ok(x.SM.Signal(syscall.SIGSTOP))
	y.leads(nil)
	load := &cables{test: y, tree: healthy.Tree}
	st := y.settled(load.next())
	y.unmoved(healthy, y.check(), load.lane())
	x.follows(y)

	// By itself it would look for other managers with its next sweep.
	x.ok(x.SM.Signal(syscall.SIGCONT), x.SM.Signal(syscall.SIGHUP))
	leaf, lane := load.at(load.n - 1)
	if now := x.leads(Cable(leaf, lane, "missing")); now.Epoch < st.Epoch {
		t.Errorf("epoch %d was in force, and after the handover %d is", st.Epoch, now.Epoch)
	}
	x.unmoved(healthy, x.check(), load.lane())
	y.follows(x)
}

// samePlan compares all but the epoch.
func samePlan(a, b *phasetable.View) bool {
	p, q := a.Table(), b.Table()
	p.Epoch, q.Epoch = 0, 0
	x, err := phasetable.Encode(p)
	y, err2 := phasetable.Encode(q)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}
