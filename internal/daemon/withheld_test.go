package daemon

import (
	"slices"
	"testing"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/exclusions"
)

// TestWithheld withholds a cable by a decision and gives it back, without a change of the
// fabric. The plan follows and names the decision.
func TestWithheld(t *testing.T) {
	d, f := readable(newDaemon(t)), fabric(4, 4)
	d.atRest(t, f)
	c := d.state.Now().Latest.Cables([]controller.Lane{{Leaf: 2, Lane: 1}})[0].Lower.End
	decide := func(text string, cables ...ib.End) {
		t.Helper()
		before := d.state.Now().EpochNumber()
		d.excluder.withhold(t.Context(), exclusions.Drained, cables, text)
		d.rest(t, f)
		e := d.state.Now().Epoch
		if e.Epoch != before+1 || !slices.Equal(e.What, []string{text}) {
			t.Errorf("epoch %d after %d, because of %q; want one more because of %q", e.Epoch, before, e.What, text)
		}
	}
	uses := func() bool {
		e, v := d.state.Now().Epoch.Plan, d.state.Now().Latest
		for s := range e.Servers() {
			for p := range e.Phases() {
				if x := e.Row(s).At(p); x.SendTo >= 0 && x.Lane == 1 && e.Server(s).Leaf != e.Server(x.SendTo).Leaf &&
					(v.Tree.Leaves[e.Server(s).Leaf].GUID == c.GUID || v.Tree.Leaves[e.Server(x.SendTo).Leaf].GUID == c.GUID) {
					return true
				}
			}
		}
		return false
	}
	if !uses() {
		t.Fatal("the plan does not use the cable: this tells nothing")
	}
	decide("Leaf002 port 6 is drained", c)
	if held := d.state.Now().Held; uses() || !slices.Equal(held, []controller.Lane{{Leaf: 2, Lane: 1}}) {
		t.Errorf("the plan uses the cable: %v; held back: %v", uses(), held)
	}
	if marks := d.state.Now().Change; !marks.Settled || marks.ReadBack.IsZero() {
		t.Errorf("the change has settled: %+v", marks)
	}
	// A second decision to withhold the cable changes nothing.
	before := d.state.Now().EpochNumber()
	d.excluder.withhold(t.Context(), exclusions.Isolated, []ib.End{c}, "Leaf002 port 6 is isolated")
	if d.rest(t, f); d.state.Now().EpochNumber() != before || len(d.bouncing) > 0 {
		t.Errorf("epoch %d after %d; the link state reads %v", d.state.Now().EpochNumber(), before, d.bouncing)
	}
	d.excluder.withhold(t.Context(), exclusions.Isolated, nil, "")
	decide("Leaf002 port 6 is no longer drained")
	if !uses() || d.state.Now().Held != nil {
		t.Errorf("the plan uses the cable: %v; held back: %v", uses(), d.state.Now().Held)
	}
}
