package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/liquid"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// This file schedules fabrics that are no fat tree, or no longer one, on the routes
// that OpenSM has given them, where planning.other_fabrics says so. The controller
// knows nothing of it: it is not shown such a fabric, so no table is written for
// one. A plan is published between its actions.

// The warnings of this way to work.
const (
	notFatTree   = "not-a-fat-tree"
	liquidFailed = "liquid-plan-failed"
)

// engineLiquid is the engine of plans on OpenSM's own routes.
const engineLiquid fors.Engine = "liquid"

// liquidPlanTime bounds the planning for a fabric; what was found until then is
// published.
const liquidPlanTime = 30 * time.Second

var errNotFatTree = errors.New("the fabric is no fat tree: its tables are left alone")

// liquidState is what the daemon knows of a fabric that is no fat tree. It is
// guarded by mu; stop and doubt are the loop's.
type liquidState struct {
	on     bool             // the fabric seen last is no fat tree, and planned for
	fabric *topology.Fabric // as planned for last, nil before that
	tables *lft.Tables      // as read for it
	stop   context.CancelFunc
	doubt  time.Time // since when most servers are missing
}

// refuse takes in a fabric that is no fat tree, and plans for it if it may; f is nil
// where there is none to plan for.
func (d *Daemon) refuse(ctx context.Context, f *topology.Fabric, reason error) {
	if f == nil || d.cfg.Planning.OtherFabrics != config.OtherLiquid || d.core.Standby() {
		d.step(ctx, controller.Refused{Reason: reason.Error()})
		return
	}
	hosts := d.liquidHosts(f)
	if text := d.halfSeen(hosts); text != "" {
		d.step(ctx, controller.Refused{Reason: text})
		return
	}
	d.health.Clear(controller.FabricRefused)
	d.health.Raise(notFatTree, fmt.Sprintf("exchanges are scheduled on the routes that OpenSM has, and no tables are written: %v", reason), time.Now())
	d.stopLiquid()
	run, stop := context.WithCancel(ctx)
	d.mu.Lock()
	d.liquid.on, d.liquid.stop = true, stop
	d.mu.Unlock()
	d.work.Go(func() {
		defer stop()
		err := d.planOther(run, f, hosts)
		if run.Err() != nil {
			return // a newer dump has been seen, or the daemon ends
		}
		if err == nil {
			d.health.Clear(liquidFailed)
			return
		}
		d.health.Raise(liquidFailed, err.Error(), time.Now())
	})
}

// fatTreeSeen ends what refuse began.
func (d *Daemon) fatTreeSeen() {
	d.stopLiquid()
	d.mu.Lock()
	d.liquid = liquidState{}
	d.mu.Unlock()
	d.health.Clear(notFatTree)
	d.health.Clear(liquidFailed)
}

// stopLiquid gives up the planning under way.
func (d *Daemon) stopLiquid() {
	if d.liquid.stop != nil {
		d.liquid.stop()
	}
}

// leavesTables tells whether tables are left alone for now.
func (d *Daemon) leavesTables() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.liquid.on
}

// liquidHosts lists the hosts that take part.
func (d *Daemon) liquidHosts(f *topology.Fabric) []topology.EndPort {
	var hosts []topology.EndPort
	for _, h := range liquid.Hosts(f) {
		if x := d.cfg.Planning.Exclude; x == nil || !x.MatchString(f.Nodes[h.Node].Name) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// halfSeen says why a fabric is not believed: it lacks most servers of the plan in
// force, and has not done so for long.
func (d *Daemon) halfSeen(hosts []topology.EndPort) string {
	e := d.current()
	if e == nil || e.Plan.Servers() == 0 {
		return ""
	}
	there := 0
	for _, h := range hosts {
		if _, known := e.Plan.FindGUID(h.GUID); known {
			there++
		}
	}
	lost := 1 - float64(there)/float64(e.Plan.Servers())
	if lost <= d.cfg.Safety.MaxLoss {
		d.liquid.doubt = time.Time{}
		return ""
	}
	if d.liquid.doubt.IsZero() {
		d.liquid.doubt = time.Now()
	}
	if time.Since(d.liquid.doubt) >= d.cfg.Safety.Confirm {
		return ""
	}
	return fmt.Sprintf("the fabric is no fat tree and lacks %.0f %% of the servers in the plan: it is believed if a dump after %v still says so",
		100*lost, d.cfg.Safety.Confirm)
}

// planOther reads the tables of a fabric out of its switches, schedules its hosts'
// exchange on them, and publishes the plan if it is another than that in force.
func (d *Daemon) planOther(ctx context.Context, f *topology.Fabric, hosts []topology.EndPort) error {
	if len(hosts) < 2 {
		return fmt.Errorf("%d hosts can take part in an exchange: it takes two", len(hosts))
	}
	tables, _, err := d.reader().Tables(ctx, f)
	if err != nil {
		return fmt.Errorf("read the switches' tables: %w", err)
	}
	d.mu.Lock()
	same := d.liquid.fabric != nil && d.liquid.fabric.Hash() == f.Hash() && reflect.DeepEqual(d.liquid.tables, tables)
	d.mu.Unlock()
	if same {
		return nil
	}
	start := time.Now()
	routes, err := liquid.Trace(f, tables, hosts, nil)
	if err != nil {
		return err
	}
	if routes.Traffic.Len() == 0 {
		return fmt.Errorf("no host reaches another: %w", routes.Cut[0].Reason)
	}
	within, cancel := context.WithTimeout(ctx, liquidPlanTime)
	defer cancel()
	result, err := liquid.Make(within, routes.Traffic, liquid.Options{})
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	table, err := routes.Table(result.Schedule)
	if err != nil {
		return err
	}
	if err := routes.Check(table); err != nil {
		return fmt.Errorf("the plan fails its check on the tables, which is a fault of forsd: %w", err)
	}
	info := store.EpochInfo{Fabric: "liquid-" + f.Hash()[:16], What: []string{"the fabric is no fat tree: scheduled on OpenSM's routes"},
		Report: otherReport(routes, result, time.Since(start)), Warnings: otherWarnings(routes, result)}
	for _, w := range info.Warnings {
		info.Report.Warnings = append(info.Report.Warnings, w.Code)
	}
	now := d.current()
	keep := now != nil && stillHolds(routes, now, len(result.Schedule))
	var published error
	err = d.calm(ctx, func() {
		if ctx.Err() != nil {
			return // a newer dump was seen while this waited
		}
		if keep && d.current() == now && !d.reissue {
			d.planWarnings(now.Warnings)
		} else if published = d.publishOther(table, info); published != nil {
			return
		}
		d.mu.Lock()
		d.liquid.fabric, d.liquid.tables = f, tables
		d.mu.Unlock()
		d.nowReady()
	})
	return errors.Join(err, published)
}

// stillHolds tells whether a plan is one for these routes, and has no more than the given
// phases. Then it stays in force: where a clock has ended the planning, the same again,
// as after a restart, may bring another plan that is as good.
func stillHolds(routes *liquid.Routes, e *store.Epoch, phases int) bool {
	return e.Report.Engine == engineLiquid && e.Report.TopologyHash == routes.Fabric.Hash() && e.Plan.Phases() <= phases &&
		routes.Check(e.Plan.Table()) == nil
}

// publishOther puts the plan in force under the next number.
func (d *Daemon) publishOther(t *phasetable.Table, info store.EpochInfo) error {
	t.Epoch = d.store.Next()
	e, err := store.NewEpoch(t)
	if err == nil {
		err = d.put(e, info)
	}
	if err == nil {
		d.reissue = false
	}
	return err
}

// otherReport describes the plan as the report of a plan for a fat tree does.
func otherReport(routes *liquid.Routes, r *liquid.Result, took time.Duration) planner.Report {
	lmc, switches := 0, make(map[int32]bool)
	for _, h := range routes.Hosts {
		lmc = max(lmc, int(h.LMC))
		switches[routes.Fabric.At(h.PortRef).Peer] = true
	}
	return planner.Report{Version: 1, Engine: engineLiquid, Phases: len(r.Schedule), LowerBound: r.Bound, Gap: len(r.Schedule) - r.Bound,
		Servers: len(routes.Hosts), Leaves: len(switches), LMC: lmc, LIDs: 1, UnreachablePairs: len(routes.Cut), Certificate: fors.ByNothing,
		Warnings: []string{}, PlanSeconds: math.Round(took.Seconds()*1e3) / 1e3, TopologyHash: routes.Fabric.Hash()}
}

// otherWarnings says what the plan lacks.
func otherWarnings(routes *liquid.Routes, r *liquid.Result) []planner.Warning {
	var out []planner.Warning
	if gap := len(r.Schedule) - r.Bound; gap > 0 {
		out = append(out, planner.Warning{Code: planner.PlanOverBound, Text: fmt.Sprintf("the plan has %d phases, %d more than its bound of %d", len(r.Schedule), gap, r.Bound)})
	}
	if n := len(routes.Cut); n > 0 {
		c := routes.Cut[0]
		name := func(i int32) string { return routes.Fabric.Nodes[routes.Hosts[i].Node].Label() }
		out = append(out, planner.Warning{Code: planner.UnreachablePairs, Text: fmt.Sprintf("%d pairs of servers have no path by OpenSM's tables, the first from %s to %s: %v",
			n, name(c.Src), name(c.Dst), c.Reason)})
	}
	return out
}

// routesInForce is the fabric with the tables that were read back for it last, nil where
// there are none.
func (d *Daemon) routesInForce() (*topology.Fabric, *lft.Tables) {
	d.mu.Lock()
	f, tables, on := d.liquid.fabric, d.liquid.tables, d.liquid.on
	d.mu.Unlock()
	if on {
		return f, tables
	}
	if v := d.latest(); v != nil {
		return v.tree.Fabric, d.desk.InSwitches()
	}
	return nil, nil
}
