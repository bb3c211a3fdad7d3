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
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/topology"
)

// TestReleaseIsKept releases an isolated cable at an operator's request. The release is
// stored before the answer, so a crash does not undo it.
func TestReleaseIsKept(t *testing.T) {
	w := newTwins(t, fabric(4, 4))
	w.leader.cables.Settings.Mode = cablehealth.Isolate
	v := w.leader.state.Now().Latest
	c := v.Cables([]controller.Lane{{Leaf: 1, Lane: 2}})[0].Lower.End
	spine := &v.Tree.Spines[v.Tree.LaneOf[2]]
	isolated := cablehealth.Cable{Leaf: c, Spine: ib.End{GUID: spine.GUID, Port: v.Tree.Leaves[1].Cables[2].SpinePort}}
	stored := func() string {
		text, err := os.ReadFile(filepath.Join(w.leader.cfg.StateDir, "decisions.json"))
		ok(t, err)
		return string(text)
	}
	ok(t, w.leader.inbox.between(t.Context(), func(ctx context.Context, l turn) {
		l.cables.Resume(time.Now(), cables.Kept{Cables: []cables.KeptCable{{Cable: isolated,
			Record: cablehealth.Record{State: cablehealth.Isolated, Since: time.Now(), Why: []string{"errors"}}}}})
		l.cables.Seen(time.Now(), v.TwoLevels())
		l.carryOut(ctx, cables.Orders{Withhold: true, Cables: []ib.End{c}, Text: "it is isolated"})
	}))
	if !strings.Contains(stored(), "isolated") {
		t.Fatalf("stored is %s", stored())
	}
	ok(t, w.leader.backend.Loop.ReleaseCable(t.Context(), fmt.Sprintf("%s/%d", v.Tree.Leaves[1].Name, c.Port)))
	if text := stored(); strings.Contains(text, `"isolated"`) || !strings.Contains(text, "probation") {
		t.Errorf("once it is released, stored is %s", text)
	}
}

// TestCountersAmidChange checks that counters read during a change, or shortly before it
// was noticed, are ignored.
func TestCountersAmidChange(t *testing.T) {
	s := running(t, fabric(4, 4))
	s.settles(func(*store.Epoch, *view.View) bool { return true })
	v := s.state.Now().Latest
	want := cables.Want(v.Tree)
	round := func(asked time.Time, symbols uint64) (suspect int) {
		t.Helper()
		r := cables.Round{Began: asked, Ended: time.Now(), Asked: map[ib.GUID]time.Time{}, Ports: map[ib.End]umad.PortCounters{}}
		for _, w := range want {
			r.Asked[w.GUID] = asked
			for _, p := range w.Ports {
				r.Ports[ib.End{GUID: w.GUID, Port: p}] = umad.PortCounters{Counters: ib.Counters{Symbols: symbols}}
			}
		}
		ok(t, s.inbox.call(s.ctx, func(_ context.Context, l *loop) { l.excluder.read(r) }))
		for _, c := range s.backend.Cables.Answer(v.Tree, nil).Cables {
			if c.State == "suspect" {
				suspect++
			}
		}
		return suspect
	}
	round(time.Now(), 0)
	whole := v.Fabric
	for _, f := range []*topology.Fabric{pulled(t, whole, []string{"Leaf001/6"}), whole} {
		s.sweep(f)
		s.rests(f)
		var asked time.Time
		ok(t, s.inbox.call(s.ctx, func(_ context.Context, l *loop) {
			asked = l.excluder.unrest.from.Add(-unnoticed / 2)
			if f == whole {
				asked = l.excluder.unrest.from.Add(l.excluder.unrest.until.Sub(l.excluder.unrest.from) / 2)
			}
		}))
		if n := round(asked, 1_000_000); n != 0 {
			t.Errorf("%d cables are suspect by what was read amid a change", n)
		}
	}
	_, err := s.backend.Reroute(s.ctx) // the tables have always fitted the cables
	ok(t, err)
	round(time.Now(), 1_000_000)
	if n := round(time.Now(), 2_000_000); n != 16 {
		t.Errorf("%d of 16 cables are suspect by what was read at rest", n)
	}
}
