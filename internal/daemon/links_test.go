package daemon

import (
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// traps lets a switch send a trap, without starting the reading.
func (d *Daemon) traps(f *topology.Fabric, g ib.GUID, at time.Time) {
	d.links.Step(time.Now(), linkstate.Trap{LID: f.Nodes[f.Find(g)].LID(), At: at})
}

// says returns a switch's answer about its ports, some of which are down.
func says(f *topology.Fabric, g ib.GUID, down ...uint8) linkstate.Answer {
	n := &f.Nodes[f.Find(g)]
	a := linkstate.Answer{Switch: g}
	for _, p := range f.Trunks(f.Find(g)) {
		a.Ports = append(a.Ports, linkstate.Port{Number: p, State: n.Ports[p].State, Rate: n.Ports[p].Rate})
	}
	for _, p := range down {
		for i := range a.Ports {
			if a.Ports[i].Number == p {
				a.Ports[i].State = topology.Down
			}
		}
	}
	return a
}

// TestFastPath plans without a cable as soon as its switch has reported it down, and
// finds the same fabric before the sweep as after it.
func TestFastPath(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	d.bringUp(t, healthy)
	leaf := fabgen.LeafGUID + 1
	d.links.Step(time.Now(), linkstate.Shown{Fabric: healthy})
	for _, a := range []linkstate.Answer{says(healthy, leaf), {Switch: leaf}, says(healthy, leaf, 1)} { // no fault, no answer, a host's port
		d.traps(healthy, leaf, time.Now())
		d.switchesSaid(t.Context(), a)
	}
	if d.core.Busy() {
		t.Fatal("work began though no cable of the tree is down")
	}
	began, trapped := time.Now(), time.Now()
	d.traps(healthy, leaf, trapped)
	d.switchesSaid(t.Context(), says(healthy, leaf, 4+1+2))
	cut := d.state.Now().Latest
	if want := d.see(t, lacking(healthy, 4, 1, 2)); cut.ID != want.ID || !cut.SeenAt.Equal(trapped) {
		t.Errorf("fabric %s without the cable, and the sweep will find %s", cut.ID, want.ID)
	}
	if !d.core.Busy() {
		t.Error("nothing is planned")
	}

	// A sweep that began earlier does not bring the cable back; one that began later
	// does.
	for _, c := range []struct {
		began time.Time
		id    string
	}{{began, cut.ID}, {time.Now().Add(time.Hour), d.see(t, healthy).ID}} {
		d.observe(t.Context(), linkstate.SweepBegan{At: c.began})
		v, err := d.view(d.observe(t.Context(), linkstate.Shown{Fabric: healthy}))
		if err != nil || v.ID != c.id {
			t.Errorf("a sweep that began at %v shows %s, want %s (%v)", c.began, v.ID, c.id, err)
		}
	}
	d.next(t.Context(), t) // the plan
}

// TestSpokenTogether handles the answers of several switches together. They yield one
// fabric without all cables that are down.
func TestSpokenTogether(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	d.bringUp(t, healthy)
	d.links.Step(time.Now(), linkstate.Shown{Fabric: healthy})
	first, second := time.Now(), time.Now().Add(time.Millisecond)
	d.traps(healthy, fabgen.LeafGUID+1, first)
	d.traps(healthy, fabgen.LeafGUID+2, second)
	d.probe.Answers = make(chan linkstate.Answer, 1)
	d.probe.Answers <- says(healthy, fabgen.LeafGUID+1, 4+1+2)
	d.switchesSaid(t.Context(), says(healthy, fabgen.LeafGUID+2, 4+1+2))
	cut := d.state.Now().Latest
	if want := d.see(t, lacking(lacking(healthy, 4, 1, 2), 4, 2, 2)); cut.ID != want.ID || !cut.SeenAt.Equal(first) {
		t.Errorf("fabric %s, the sweep will find %s; seen at %v", cut.ID, want.ID, cut.SeenAt)
	}
	d.next(t.Context(), t) // the plan
}

// TestPrepare makes plans for the next loss while the fabric is at rest. When a cable
// dies, its plan is found, and is the same as without preparation.
func TestPrepare(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	whole := d.bringUp(t, healthy)
	d.settled(t.Context(), controller.Settled{Fabric: whole.Snapshot()})
	d.finish()
	if made, ended := d.planning.Memory.PrepareLosses(t.Context(), whole.Tree, d.planning, func() bool { return true }); made > 0 || !ended {
		t.Errorf("%d plans for a dead cable were not prepared", made)
	}
	v := d.see(t, lacking(healthy, 4, 1, 2))
	d.planAndPublish(t, controller.Plan{Fabric: v.Snapshot()})
	other := newDaemon(t)
	other.bringUp(t, healthy)
	other.planAndPublish(t, controller.Plan{Fabric: other.see(t, lacking(healthy, 4, 1, 2)).Snapshot()})
	if string(d.state.Now().Epoch.Plan.Bytes()) != string(other.state.Now().Epoch.Plan.Bytes()) {
		t.Error("the plan prepared is another one")
	}
}

// TestTwoRates asks the switches if OpenSM shows a cable with two rates, and uses the
// cable again when they have reported one rate.
func TestTwoRates(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	d.bringUp(t, healthy)
	odd, leaf := healthy.Clone(), healthy.Find(fabgen.LeafGUID+1)
	port := &odd.Nodes[leaf].Ports[4+1+2]
	port.Rate = ib.Rate{Width: 1, Speed: port.Rate.Speed}
	d.probe.Answers = make(chan linkstate.Answer, 1)
	v, err := d.view(d.observe(t.Context(), linkstate.Shown{Fabric: odd, Swept: true}))
	if err != nil || len(v.Down) != 1 {
		t.Fatalf("lanes %v are down (%v), and one runs at %v as far as anybody knows", v.Down, err, port.Rate)
	}
	d.switchesSaid(t.Context(), says(healthy, healthy.Nodes[leaf].GUID))
	if v := d.state.Now().Latest; len(v.Down) != 0 {
		t.Errorf("lanes %v are down, and the switch says %v", v.Down, healthy.Nodes[leaf].Ports[4+1+2].Rate)
	}
}

// TestHeldBack reads the switches at a bouncing cable.
func TestHeldBack(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	v := d.bringUp(t, healthy)
	d.probe.Answers = make(chan linkstate.Answer, 2)
	d.links.Step(time.Now(), linkstate.Shown{Fabric: healthy})
	d.heldBack(t.Context(), []controller.Lane{{Leaf: 1, Lane: 2}})
	if cables := d.state.Now().Latest.Cables([]controller.Lane{{Leaf: 1, Lane: 2}, {Leaf: 9, Lane: 0}, {Leaf: 0, Lane: 9}}); len(cables) != 1 {
		t.Errorf("%d cables, and two lanes are not in the tree", len(cables))
	}
	for range 2 {
		if a := <-d.probe.Answers; a.Switch != v.Tree.Leaves[1].GUID && a.Switch != v.Tree.Spines[2].GUID {
			t.Errorf("switch %v is read", a.Switch)
		}
	}
	d.state.Remember(&view.View{Fabric: healthy, ID: "routes of its own"})
	d.heldBack(t.Context(), []controller.Lane{{Leaf: 1, Lane: 2}})
}
