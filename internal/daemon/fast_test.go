package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// says is what a switch of a fabric says of its ports, some of which are down.
func says(f *topology.Fabric, g topology.GUID, trapped time.Time, down ...int) probed {
	n := &f.Nodes[f.Find(g)]
	r := probed{node: g, ports: make([]umad.PortInfo, len(n.Ports)), trapped: trapped, asked: time.Now()}
	for p := range r.ports {
		if r.ports[p].State = n.Ports[p].State; p > 0 && n.Ports[p].Connected() {
			r.numbers = append(r.numbers, uint8(p))
		}
	}
	for _, p := range down {
		r.ports[p].State = topology.Down
	}
	return r
}

// TestFastPath plans without a cable as soon as its switch has said that it is down,
// and has the same fabric before it as after the sweep.
func TestFastPath(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	d.bringUp(t, healthy)
	leaf := fabgen.LeafGUID + 1
	read := func(r probed) {
		d.probes[r.node] = &probe{}
		d.portsRead(t.Context(), r)
	}
	d.shown = healthy
	read(says(healthy, leaf, time.Now()))
	read(probed{node: leaf, err: errors.New("no answer")})
	read(says(healthy, leaf, time.Now(), 1)) // a host's port
	if d.core.Busy() || len(d.losses) != 0 {
		t.Fatal("work began though no cable of the tree is down")
	}
	began := time.Now()
	trapped := time.Now()
	read(says(healthy, leaf, trapped, 4+1+2))
	cut := d.latest()
	if want := d.see(t, lacking(healthy, 4, 1, 2)); cut.id != want.id || !cut.seenAt.Equal(trapped) {
		t.Errorf("fabric %s without the cable, and the sweep will find %s", cut.id, want.id)
	}
	if !d.core.Busy() {
		t.Error("nothing is planned")
	}

	// A sweep that began before does not bring the cable back; one that began later does.
	for _, c := range []struct {
		began time.Time
		id    string
	}{{began, cut.id}, {time.Now().Add(time.Hour), d.see(t, healthy).id}} {
		v, err := d.sight(t.Context(), healthy, c.began)
		if err != nil || v.id != c.id {
			t.Errorf("a sweep that began at %v shows %s, want %s (%v)", c.began, v.id, c.id, err)
		}
	}
	if len(d.losses) != 0 {
		t.Errorf("%v is remembered though a sweep knows better", d.losses)
	}
	d.next(t, t.Context()) // the plan
}

// TestSpokenTogether takes what several switches say in one go: one fabric without all
// that is down, and a cable of which both ends have spoken is lost once.
func TestSpokenTogether(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	d.bringUp(t, healthy)
	d.shown = healthy
	first, second := time.Now(), time.Now().Add(time.Second)
	spine := healthy.Nodes[healthy.Find(fabgen.LeafGUID+1)].Ports[4+1+2].Peer
	reads := []probed{
		says(healthy, fabgen.LeafGUID+2, second, 4+1+2),
		says(healthy, fabgen.LeafGUID+1, first, 4+1+2),
		says(healthy, healthy.Nodes[spine].GUID, second, int(healthy.Nodes[healthy.Find(fabgen.LeafGUID+1)].Ports[4+1+2].PeerPort)),
		says(healthy, fabgen.LeafGUID+3, first),
	}
	for _, r := range reads {
		d.probes[r.node] = &probe{}
	}
	d.portsRead(t.Context(), reads...)
	cut := d.latest()
	if want := d.see(t, lacking(lacking(healthy, 4, 1, 2), 4, 2, 2)); cut.id != want.id || !cut.seenAt.Equal(first) {
		t.Errorf("fabric %s, the sweep will find %s; seen at %v", cut.id, want.id, cut.seenAt)
	}
	if len(d.losses) != 2 || len(d.probes) != 0 {
		t.Errorf("losses %v, probes %v", d.losses, d.probes)
	}
	d.next(t, t.Context()) // the plan
}

// TestLossElsewhere holds where a fabric shows a switch that lost a cable without the
// port, or with a host at it.
func TestLossElsewhere(t *testing.T) {
	d := newDaemon(t)
	f := fabric(4, 4)
	d.bringUp(t, f)
	leaf := fabgen.LeafGUID + 1
	for name, port := range map[string]uint8{"no port": 200, "a host": 1} {
		d.losses = []loss{{leaf, port, time.Now()}}
		if got := d.without(f); got.Hash() != f.Hash() {
			t.Errorf("%s: the fabric changes", name)
		}
		if d.settle(t.Context(), f, time.Time{}); len(d.losses) != 0 || len(d.probes) != 0 {
			t.Errorf("%s: the loss is remembered", name)
		}
	}
}

// TestLossConfirmed forgets a loss that a sweep has found as well, and one that the
// switch itself takes back.
func TestLossConfirmed(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	whole := d.bringUp(t, healthy)
	leaf, began := fabgen.LeafGUID+1, time.Now()
	lose := func() {
		d.shown = healthy
		d.see(t, healthy)
		d.probes[leaf] = &probe{}
		d.portsRead(t.Context(), says(healthy, leaf, time.Now(), 7))
		if len(d.losses) != 1 {
			t.Fatalf("losses: %v", d.losses)
		}
	}
	lose()
	if _, err := d.sight(t.Context(), lacking(healthy, 4, 1, 2), began); err != nil || len(d.losses) != 0 {
		t.Errorf("after a sweep that lacks it, too: %v, %v", d.losses, err)
	}
	lose()
	d.probes[leaf] = &probe{}
	d.portsRead(t.Context(), says(healthy, leaf, time.Now())) // up
	if len(d.losses) != 0 || d.latest().id != whole.id {
		t.Errorf("after the switch took it back: %v", d.losses)
	}
	d.next(t, t.Context()) // the plan
}

// TestStrandedSwitch leaves out a spine whose last cable is gone, as a sweep does.
func TestStrandedSwitch(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	d.bringUp(t, healthy)
	d.shown = healthy
	spine := healthy.Find(fabgen.SpineGUID + 1)
	guid := healthy.Nodes[spine].GUID
	d.probes[guid] = &probe{}
	d.portsRead(t.Context(), says(healthy, guid, time.Now(), 1, 2, 3, 4))
	got := d.latest().tree.Fabric
	if err := got.Validate(); err != nil || got.Find(guid) != topology.None || len(got.Nodes) != len(healthy.Nodes)-1 {
		t.Errorf("%d of %d nodes, the spine at %d: %v", len(got.Nodes), len(healthy.Nodes), got.Find(guid), err)
	}
	if down := d.latest().down; len(down) != 4 {
		t.Errorf("lanes %v are down", down)
	}
	d.next(t, t.Context()) // the plan
}

// TestPrepare makes a plan for the next loss when all is at rest: the one that is made
// when a cable dies is found, and is the same as without.
func TestPrepare(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	d.bringUp(t, healthy)
	d.prepare(context.Background())
	d.work.Wait()
	v := d.see(t, lacking(healthy, 4, 1, 2))
	if d.memory.Prepare(context.Background(), v.tree, d.planning()) {
		t.Error("the plan for a dead cable was not prepared")
	}
	d.planAndPublish(t, controller.Plan{Fabric: v.id})
	other := newDaemon(t)
	other.bringUp(t, healthy)
	other.planAndPublish(t, controller.Plan{Fabric: other.see(t, lacking(healthy, 4, 1, 2)).id})
	if string(d.current().Plan.Bytes()) != string(other.current().Plan.Bytes()) {
		t.Error("the plan prepared is another one")
	}
}
