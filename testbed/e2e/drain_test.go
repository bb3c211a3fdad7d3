package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
)

// drained waits until there are n drains, all of them safe to pull.
func (x *test) drained(n int) {
	x.Helper()
	ctx, cancel := x.within()
	defer cancel()
	x.ok(x.Until(ctx, func() error {
		all, err := x.Client.Drains(ctx)
		if err == nil && (len(all) != n || slices.ContainsFunc(all, func(d api.Drain) bool { return d.State != "safe" })) {
			err = fmt.Errorf("wait for %d drains that are safe: %+v", n, all)
		}
		return err
	}))
}

// sends counts the transfers of the plan in force over a lane, at a leaf or with −1 at any.
func (x *test) sends(leaf, lane int) (n int) {
	x.Helper()
	plan, err := x.Client.Table(x.ctx)
	x.ok(err)
	at := func(s int) bool { return leaf < 0 || plan.Server(s).Leaf == leaf }
	for s := range plan.Servers() {
		for p := range plan.Phases() {
			if e := plan.Row(s).At(p); e.SendTo != phasetable.Idle && e.Lane == lane && (at(s) || at(e.SendTo)) {
				n++
			}
		}
	}
	return n
}

// TestDrainHandover drains a spine and a cable, and hands over: by the manager's own decision,
// and because a whole host is lost while another part is on its way out. The forsd that then
// leads has the same drains; the safe parts are pulled, and no plan changes.
func TestDrainHandover(t *testing.T) {
	t.Parallel()
	x, y, healthy := pair(t, small())
	_, err := x.Client.Drain(x.ctx, api.DrainRequest{Parts: []string{"Spine002"}, Reason: "fans"})
	x.ok(err)
	x.drained(1)
	y.follows(x)
	y.drained(1)
	order, err := x.Client.Drain(x.ctx, api.DrainRequest{Parts: []string{"Leaf001/5"}})
	x.ok(err)
	if order.Cost.Phases != 24 {
		t.Errorf("it costs %+v", order.Cost)
	}
	y.until("the other one knows of it", func(st *api.Status) bool { return len(st.Drains) == 2 })
	x.ok(x.KillForsd(x.ctx)) // perhaps during the change
	x.SM.Kill()
	y.until("it leads", func(st *api.Status) bool { return !st.OpenSM.Standby })
	y.drained(2)
	st := y.settled(nil)
	if n, m := y.sends(-1, 2), y.sends(1, 0); n+m > 0 || st.Phases != 24 {
		t.Errorf("epoch %d of %d phases sends %d transfers over the spine and %d over the cable that are drained", st.Epoch, st.Phases, n, m)
	}
	cable := healthy.Tree.Leaves[1].Cables[0]
	x.ok(y.Sim.UnlinkNode(y.ctx, "Spine002"), y.Sim.Unlink(y.ctx, "Leaf001", int(cable.LeafPort)))
	now := y.settled(func(top *api.Topology) error {
		if err := SpinePresent(2, false)(top); err != nil {
			return err
		}
		return Cable(1, 0, "missing")(top)
	})
	if now.Epoch != st.Epoch {
		t.Errorf("pulled, epoch %d takes the place of %d: %v", now.Epoch, st.Epoch, now.LastEvent.What)
	}
	for _, code := range []string{"spine-down", "cable-down"} {
		if HasWarning(now, code) {
			t.Errorf("an alarm: %v", now.Warnings)
		}
	}
	_, err = y.Client.Undrain(y.ctx, "Leaf001/5")
	y.ok(err)
	y.warned("cable-down") // it is still absent
	y.drained(1)
}
