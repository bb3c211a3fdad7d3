package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/topology"
)

// dumpSeen takes in a dump of the manager. While the plugin leads, it has told of
// the same before.
func (d *Daemon) dumpSeen(ctx context.Context, s opensm.Snapshot) {
	if d.manager.PluginConnected() || d.peer.is() { // with a peer only the plugin tells who is the master
		return
	}
	if d.core.Standby() { // a manager dumps as the master alone
		d.stand(ctx, standby.Manager{Master: true})
	}
	v, err := d.sight(ctx, linkstate.Shown{Fabric: s.Fabric, Swept: s.Swept, Seen: s.SeenAt})
	if err != nil {
		d.step(ctx, controller.Refused{Reason: err.Error()})
		return
	}
	v.Complete = s.CompleteAt
	d.take(ctx, v, s.Swept)
}

// take has the controller see a view, at the end of a sweep or before.
func (d *Daemon) take(ctx context.Context, v *view.View, swept bool) {
	d.peer.shown = true
	d.board.Remember(v)
	if snapshot := (controller.Snapshot{ID: v.ID, Kind: v.Kind, Why: v.Reason, Down: v.Down, Lost: v.Lost(d.board.Current(), d.board.Baseline())}); swept {
		d.step(ctx, controller.Seen{Snapshot: snapshot})
	} else {
		d.step(ctx, controller.Found{Snapshot: snapshot})
	}
	if d.core.Overtaken() {
		d.giveUp() // the new fabric must not wait for switches that may not answer, or for a plan of the old one
	}
	if v.Tree != nil && !d.core.Doubts() {
		d.board.Adopt(v.Tree.Baseline) // so that the next newcomer does not take this one's index
	}
	d.health.Set("fabric", v.Findings(), time.Now())
}

// heldCables names the cables that are held back.
func (d *Daemon) heldCables() string {
	var names []string
	for _, c := range d.board.Latest().Cables(d.core.Bouncing()) {
		names = append(names, fmt.Sprintf("%s port %d – %s", c.Leaf.Name, c.Port, c.Spine.Name))
	}
	return "these cables keep bouncing and are not used for now: " + strings.Join(names, ", ")
}

// fit is the view of a fabric through the baseline in force, or a new one while there
// is none.
func (d *Daemon) fit(f *topology.Fabric) (*view.View, error) {
	return view.Fit(f, d.board.Baseline(), &d.cfg.Planning, d.board.Current() == nil)
}
