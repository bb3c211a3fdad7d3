package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// dumpSeen takes in a dump of the manager. While the plugin leads, it has told of
// the same before.
func (d *Daemon) dumpSeen(ctx context.Context, s opensm.Snapshot) {
	if d.link.connected || d.peer.is() { // with a peer only the plugin tells who is the master
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
	for _, c := range d.cablesAt(d.core.Bouncing()) {
		names = append(names, fmt.Sprintf("%s port %d – %s", c.leaf.Name, c.port, c.spine.Name))
	}
	return "these cables keep bouncing and are not used for now: " + strings.Join(names, ", ")
}

// baselineFor is the stored baseline, or a new one of the fabric while there is
// none.
func (d *Daemon) baselineFor(f *topology.Fabric) (*topology.Baseline, error) {
	if base := d.board.Baseline(); base != nil {
		return base, nil
	}
	return topology.NewBaseline(f)
}

// fit is the view of a fabric through the baseline in force, or a new one while there
// is none. What is not a fat tree is a view of another kind, or is refused, as the
// settings say.
func (d *Daemon) fit(f *topology.Fabric) (*view.View, error) {
	if by := topology.Roles(d.cfg.Planning.Roles); by != (topology.Roles{}) {
		f = f.WithRoles(by)
	}
	base, err := d.baselineFor(f)
	var v *view.View
	if err == nil {
		v, err = view.New(f, base, d.cfg.Planning.Exclude)
	}
	if err == nil {
		return v, d.firstPlan(v)
	}
	var other *topology.NotFatTree
	if d.cfg.Planning.OtherFabrics != config.OtherLiquid || !errors.As(err, &other) {
		return nil, err
	}
	return view.NewOwnRoutes(f, d.cfg.Planning.Exclude, err.Error()), nil
}

// firstPlan refuses a tree whose plan would leave out too many pairs while no plan is
// in force. With one in force the tables follow the fabric all the same, and the plan
// stays: see controller.PlanFailed.
func (d *Daemon) firstPlan(v *view.View) error {
	pairs, of := planner.LaneLess(v.Tree)
	if most := d.cfg.Planning.MaxUnreachable; d.board.Current() == nil && float64(pairs) > most*float64(of) {
		return &planner.TooManyUnreachable{Pairs: pairs, Of: of, Limit: most}
	}
	return nil
}
