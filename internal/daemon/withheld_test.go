package daemon

import (
	"slices"
	"testing"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/withheld"
)

// TestWithheld withholds a cable by a decision and gives it back, without a change of the
// fabric. The plan follows and names the decision.
func TestWithheld(t *testing.T) {
	d, f := readable(newDaemon(t)), fabric(4, 4)
	d.atRest(t, f)
	c := d.board.Latest().Cables([]controller.Lane{{Leaf: 2, Lane: 1}})[0].Cable
	decide := func(text string, cables ...withheld.Cable) {
		t.Helper()
		before := d.board.EpochNumber()
		d.withhold(t.Context(), withheld.Drained, cables, text)
		d.rest(t, f)
		e := d.board.Current()
		if e.Epoch != before+1 || !slices.Equal(e.What, []string{text}) {
			t.Errorf("epoch %d after %d, because of %q; want one more because of %q", e.Epoch, before, e.What, text)
		}
	}
	uses := func() bool {
		e, v := d.board.Current().Plan, d.board.Latest()
		for s := range e.Servers() {
			for p := range e.Phases() {
				if x := e.Row(s).At(p); x.SendTo >= 0 && x.Lane == 1 && e.Server(s).Leaf != e.Server(x.SendTo).Leaf &&
					(v.Tree.Leaves[e.Server(s).Leaf].GUID == c.Leaf || v.Tree.Leaves[e.Server(x.SendTo).Leaf].GUID == c.Leaf) {
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
	if held := d.board.HeldBack(); uses() || !slices.Equal(held, []controller.Lane{{Leaf: 2, Lane: 1}}) {
		t.Errorf("the plan uses the cable: %v; held back: %v", uses(), held)
	}
	if marks := d.board.Change(); !marks.Settled || marks.ReadBack.IsZero() {
		t.Errorf("the change has settled: %+v", marks)
	}
	// A second decision to withhold the cable changes nothing.
	before := d.board.EpochNumber()
	d.withhold(t.Context(), withheld.Isolated, []withheld.Cable{c}, "Leaf002 port 6 is isolated")
	if d.rest(t, f); d.board.EpochNumber() != before || len(d.bouncing) > 0 {
		t.Errorf("epoch %d after %d; the link state reads %v", d.board.EpochNumber(), before, d.bouncing)
	}
	d.withhold(t.Context(), withheld.Isolated, nil, "")
	decide("Leaf002 port 6 is no longer drained")
	if !uses() || d.board.HeldBack() != nil {
		t.Errorf("the plan uses the cable: %v; held back: %v", uses(), d.board.HeldBack())
	}
}
