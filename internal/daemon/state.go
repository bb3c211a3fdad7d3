package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// times are the stations of a change, from the first sign of a new dump on.
type times struct {
	view                                                   string // the fabric that they belong to
	what                                                   []string
	seen                                                   time.Time
	planned, verified, published, written, swept, readBack time.Time
	settled                                                bool // it came to rest before
}

// since is how long after the first sign something happened, 0 if it has not.
func (t times) since(at time.Time) time.Duration {
	if at.IsZero() || t.seen.IsZero() {
		return 0
	}
	return at.Sub(t.seen)
}

// mark notes a station of the change that led to view v; only its first time
// counts.
func (d *Daemon) mark(v *view.View, at time.Time, station func(*times) *time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if first := station(&d.marks); d.marks.view == v.ID && first.IsZero() {
		*first = at
	}
}

// markPublished notes that a plan of the fabric is in force.
func (d *Daemon) markPublished(fabric string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.marks.view == fabric && d.marks.published.IsZero() {
		d.marks.published = time.Now()
	}
}

// whatOf says in words what led to view v.
func (d *Daemon) whatOf(v *view.View) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.marks.view != v.ID {
		return nil
	}
	return d.marks.what
}

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
	d.remember(v)
	if snapshot := (controller.Snapshot{ID: v.ID, Kind: v.Kind, Why: v.Reason, Down: v.Down, Lost: v.Lost(d.current(), d.baseline())}); swept {
		d.step(ctx, controller.Seen{Snapshot: snapshot})
	} else {
		d.step(ctx, controller.Found{Snapshot: snapshot})
	}
	if d.core.Overtaken() {
		d.giveUp() // the new fabric must not wait for switches that may not answer, or for a plan of the old one
	}
	if v.Tree != nil && !d.core.Doubts() {
		d.adopt(v.Tree.Baseline) // so that the next newcomer does not take this one's index
	}
	d.health.Set("fabric", v.Findings(), time.Now())
}

// heldCables names the cables that are held back.
func (d *Daemon) heldCables() string {
	v := d.latest()
	var names []string
	for _, l := range d.core.Held() {
		if v != nil && v.Tree != nil && l.Leaf < len(v.Tree.Leaves) && l.Lane < v.Tree.Lanes {
			leaf, spine := &v.Tree.Leaves[l.Leaf], &v.Tree.Spines[v.Tree.LaneOf[l.Lane]]
			names = append(names, fmt.Sprintf("%s port %d – %s", leaf.Name, leaf.Cables[l.Lane].LeafPort, spine.Name))
		}
	}
	return "these cables keep bouncing and are not used for now: " + strings.Join(names, ", ")
}

// baselineFor is the stored baseline, or a new one of the fabric while there is
// none.
func (d *Daemon) baselineFor(f *topology.Fabric) (*topology.Baseline, error) {
	if base := d.baseline(); base != nil {
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
	if most := d.cfg.Planning.MaxUnreachable; d.current() == nil && float64(pairs) > most*float64(of) {
		return &planner.TooManyUnreachable{Pairs: pairs, Of: of, Limit: most}
	}
	return nil
}

// remember keeps a view for the actions that will name it, and says what is new
// in it.
func (d *Daemon) remember(v *view.View) {
	d.mu.Lock()
	var previous *view.View
	if n := len(d.views); n > 0 {
		previous = d.views[n-1]
	}
	for i, old := range d.views {
		if old.ID == v.ID {
			v.Shares(old)
			d.views = slices.Delete(d.views, i, i+1)
			break
		}
	}
	d.views = append(d.views, v)
	if len(d.views) > keepViews {
		d.views = slices.Delete(d.views, 0, 1)
	}
	var changes []topology.Change
	if previous == nil || previous.ID != v.ID {
		if d.marks.settled || d.rested == nil {
			d.rested = previous
		}
		d.marks = times{view: v.ID, seen: v.SeenAt, what: []string{"the fabric was seen for the first time"}}
		if previous != nil {
			d.marks.what = []string{}
			if v.Why != "" {
				d.marks.what = append(d.marks.what, v.Why)
			}
			changes = topology.Diff(previous.Fabric, v.Fabric)
			whole := changes
			if d.rested.ID != v.ID {
				whole = topology.Diff(d.rested.Fabric, v.Fabric)
			}
			for _, c := range whole {
				d.marks.what = append(d.marks.what, c.Text)
			}
		}
	}
	d.mu.Unlock()
	for _, c := range changes {
		d.log.Info("fabric changed", zap.String("kind", string(c.Kind)), zap.String("text", c.Text))
		d.say(api.KindLink, c)
	}
}

// view is the remembered view with this ID, nil if it is forgotten.
func (d *Daemon) view(id string) *view.View {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.views {
		if v.ID == id {
			return v
		}
	}
	return nil
}

// latest is the view seen last, nil before the first.
func (d *Daemon) latest() *view.View {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.views); n > 0 {
		return d.views[n-1]
	}
	return nil
}

func (d *Daemon) baseline() *topology.Baseline {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.base
}

// adopt makes a grown baseline the daemon's.
func (d *Daemon) adopt(b *topology.Baseline) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !reflect.DeepEqual(d.base, b) {
		d.base, d.baseDirty = b, !d.provisional
	}
}

// saveBaseline makes the baseline durable if it is not, and can be.
func (d *Daemon) saveBaseline() {
	d.mu.Lock()
	base, dirty := d.base, d.baseDirty
	d.mu.Unlock()
	if !dirty {
		return
	}
	if err := d.store.SaveBaseline(base); err != nil {
		d.notStored(err)
		return
	}
	d.mu.Lock()
	d.baseDirty = d.base != base
	d.mu.Unlock()
}

func (d *Daemon) current() *store.Epoch {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inForce
}

func (d *Daemon) epochNumber() uint64 {
	if e := d.current(); e != nil {
		return e.Epoch
	}
	return 0
}

// setCurrent puts an epoch in force for everybody who asks.
func (d *Daemon) setCurrent(e *store.Epoch) error {
	report, err := json.Marshal(e.Report)
	if err != nil {
		return err
	}
	p, err := api.NewPublished(e.Plan, report, e.PublishedAt)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.inForce = e
	d.mu.Unlock()
	d.plans.Publish(p)
	d.planWarnings(e.Warnings)
	d.say(api.KindEpoch, summaryOf(&e.EpochInfo))
	return nil
}

// summaryOf is an epoch as the API lists it.
func summaryOf(e *store.EpochInfo) api.Epoch {
	return api.Epoch{Epoch: e.Epoch, PublishedAt: e.PublishedAt, Length: e.Report.Length,
		TopologyHash: e.Report.TopologyHash, What: e.What, RollbackOf: e.RollbackOf}
}

func (d *Daemon) planning() planner.Settings {
	return planner.Settings{Engine: string(d.cfg.Planning.Engine), LIDs: d.cfg.Planning.LIDs, Memory: &d.memory, MaxUnreachable: &d.cfg.Planning.MaxUnreachable}
}

// planWarnings raises the warnings that the plan in force carries.
func (d *Daemon) planWarnings(warnings []planner.Warning) {
	d.health.Set("plan", warnings, time.Now())
}

// say tells the subscribers of an event.
func (d *Daemon) say(kind string, data any) {
	if err := d.events.Publish(kind, data); err != nil {
		d.log.Error("event lost", zap.String("kind", kind), zap.Error(err))
	}
	d.peer.desk.Ring()
}
