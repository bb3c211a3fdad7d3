package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/withheld"
)

// TestReleaseIsKept gives an isolated cable back at an operator's word. Once that is
// answered it is stored: a crash does not take it back.
func TestReleaseIsKept(t *testing.T) {
	w := newTwins(t, fabric(4, 4))
	w.leader.cables.Settings.Mode = cablehealth.Isolate
	v := w.leader.board.Latest()
	c := v.Cables([]controller.Lane{{Leaf: 1, Lane: 2}})[0].Cable
	spine := &v.Tree.Spines[v.Tree.LaneOf[2]]
	isolated := cablehealth.Cable{Leaf: cablehealth.End{GUID: c.Leaf, Port: c.Port}, Spine: cablehealth.End{GUID: spine.GUID, Port: v.Tree.Leaves[1].Cables[2].SpinePort}}
	stored := func() string {
		text, err := os.ReadFile(filepath.Join(w.leader.cfg.StateDir, "decisions.json"))
		ok(t, err)
		return string(text)
	}
	ok(t, w.leader.between(t.Context(), func(ctx context.Context, l turn) {
		l.cables.Resume(time.Now(), cables.Kept{Cables: []cables.KeptCable{{Cable: isolated,
			Record: cablehealth.Record{State: cablehealth.Isolated, Since: time.Now(), Why: []string{"errors"}}}}})
		l.cables.Seen(time.Now(), v.TwoLevels())
		l.carryOut(ctx, cables.Orders{Withhold: true, Cables: []withheld.Cable{{Leaf: c.Leaf, Port: c.Port}}, Text: "it is isolated"})
	}))
	if !strings.Contains(stored(), "isolated") {
		t.Fatalf("stored is %s", stored())
	}
	ok(t, w.leader.backend.Loop.ReleaseCable(t.Context(), fmt.Sprintf("%s/%d", v.Tree.Leaves[1].Name, c.Port)))
	if text := stored(); strings.Contains(text, `"isolated"`) || !strings.Contains(text, "probation") {
		t.Errorf("once it is released, stored is %s", text)
	}
}
