package view

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/liquid"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// This file plans fabrics that are not fat trees, on the routes that OpenSM chose.

// EngineLiquid is the engine of plans on OpenSM's own routes.
const EngineLiquid = "liquid"

// The time limits for planning on OpenSM's own routes. The best plan found within them is
// published.
const (
	liquidPlanTime = 30 * time.Second
	liquidJobTime  = 5 * time.Second
)

// Proposal is a verified plan that may be published, on any kind of fabric.
type Proposal interface {
	Table(epoch uint64) *phasetable.Table
	Report() planner.Report
	Cautions() []planner.Warning
	// Is reports whether a published plan with this report stays in force instead of this one.
	Is(published *phasetable.View, about *planner.Report) bool
}

// Carried is a plan with tables made for it, and verified on them.
type Carried interface {
	Proposal
	// Check verifies the plan on each of the tables.
	Check(tables ...*lft.Tables) error
}

// TreePlan is a plan for the lanes of a fat tree.
type TreePlan struct{ *planner.Schedule }

// Cautions returns the warnings of the schedule.
func (p TreePlan) Cautions() []planner.Warning { return p.Warnings }

// Is reports whether the published plan is the same schedule, transfer by transfer.
func (p TreePlan) Is(published *phasetable.View, _ *planner.Report) bool {
	return SameRows(published, p.Tree, p.Rows)
}

// routesPlan is a plan on OpenSM's own routes.
type routesPlan struct {
	routes *liquid.Routes
	result *liquid.Result
	table  *phasetable.Table
	took   time.Duration
}

// NewOwnRoutes returns the view of a fabric that is not a fat tree. It records the reason.
func NewOwnRoutes(f *topology.Fabric, exclude *regexp.Regexp, reason string) *View {
	hosts := slices.DeleteFunc(f.ConnectedHosts(), func(h topology.EndPort) bool { return exclude != nil && exclude.MatchString(f.Nodes[h.Node].Name) })
	v := of(f, ownRoutes{f, hosts})
	v.Reason = "exchanges are scheduled on the routes that OpenSM has, and no tables are written: " + reason
	return v
}

// ownRoutes is a fabric on whose routes, which OpenSM chose, some hosts exchange data.
type ownRoutes struct {
	fabric *topology.Fabric
	hosts  []topology.EndPort
}

func (k ownRoutes) Held([]controller.Lane) *topology.FatTree { return nil }

func (k ownRoutes) identity() string { return "liquid-" + k.fabric.Hash()[:16] }

func (k ownRoutes) without([]ib.GUID) kind { return k }

func (k ownRoutes) mayPlan(float64) error { return nil }

func (k ownRoutes) route(context.Context, *View, []controller.Lane, planner.Settings) (Routes, error) {
	return Routes{}, errors.New("its tables are OpenSM's")
}

func (k ownRoutes) Carries(tables *lft.Tables, plan *phasetable.View, _ []controller.Lane) error {
	routes, err := liquid.Trace(k.fabric, tables, k.hosts, nil)
	if err != nil {
		return err
	}
	return routes.Check(plan.Table())
}

func (k ownRoutes) Order([]controller.Lane, planner.Settings) (Order, error) { return PlanFollows, nil }

func (k ownRoutes) LIDs() int { return 0 }

func (k ownRoutes) Members(names []string, skip bool) ([]planner.Member, []string, error) {
	var unknown []string
	directory := liquid.NewDirectory(k.fabric, k.fabric.ConnectedHosts())
	if skip {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			_, err := directory.Find(name)
			if err != nil {
				unknown = append(unknown, name)
			}
			return err != nil
		})
	}
	hosts, err := directory.Only(names)
	out := make([]planner.Member, len(hosts))
	for i, h := range hosts {
		out[i] = planner.Member{GUID: h.GUID, Name: k.fabric.Nodes[h.Node].Name}
	}
	return out, unknown, err
}

// Unreachable is the error for tables that leave too many pairs of hosts unreachable for a
// plan.
type Unreachable struct{ error }

// NoTree returns the error for an operation that only a fat tree allows.
func (v *View) NoTree(why string) error {
	return api.Refused("the fabric is not a fat tree, and its routes are OpenSM's: %s (%s)", why, v.Reason)
}

// OnRoutes schedules the exchange of a fabric that is not a fat tree on the tables that were
// read out of its switches. Unchanged tables yield an unchanged schedule. It fails if the share
// of pairs without a path is greater than most.
func (v *View) OnRoutes(ctx context.Context, tables *lft.Tables, most float64) (Proposal, error) {
	v.routed.mu.Lock()
	made := v.routed.own
	v.routed.mu.Unlock()
	if made != nil && lft.Changes(made.routes.Tables, tables).Entries == 0 {
		return made, nil
	}
	made, err := scheduleRoutes(ctx, v, v.kind.(ownRoutes).hosts, tables, most, liquidPlanTime)
	if err != nil {
		return nil, err
	}
	v.routed.mu.Lock()
	v.routed.own = made
	v.routed.mu.Unlock()
	return made, nil
}

// JobsOnRoutes reports whether jobs are scheduled on the tables' routes for base LIDs. This is
// so if OpenSM made the routes, and on fat trees of three levels.
func (v *View) JobsOnRoutes() bool { return v.TwoLevels() == nil }

// JobOnRoutes schedules the exchange among some host ports in the same way, on the first of the
// tables. If forsd made the tables, it checks the schedule on all of them.
func (v *View) JobOnRoutes(ctx context.Context, members []ib.GUID, tables ...*lft.Tables) (Proposal, error) {
	wanted := make(map[ib.GUID]bool, len(members))
	for _, g := range members {
		wanted[g] = true
	}
	hosts := slices.DeleteFunc(v.Fabric.ConnectedHosts(), func(h topology.EndPort) bool { return !wanted[h.GUID] })
	if len(hosts) == 0 {
		return nil, planner.ErrNoMember
	}
	p, err := scheduleRoutes(ctx, v, hosts, tables[0], 1, liquidJobTime)
	if err != nil {
		return nil, err
	}
	if v.Kind == controller.OwnRoutes {
		return p, nil
	}
	for _, other := range tables[1:] {
		routes, err := liquid.Trace(v.Fabric, other, hosts, nil)
		if err == nil {
			err = routes.Check(p.table)
		}
		if err != nil {
			return nil, fmt.Errorf("the plan does not hold on all tables that the switches may have: %w", err)
		}
	}
	return p, nil
}

// scheduleRoutes schedules the exchange of some hosts on tables, and checks the result on them.
// It fails if the share of pairs without a path is greater than most.
func scheduleRoutes(ctx context.Context, v *View, hosts []topology.EndPort, tables *lft.Tables, most float64, within time.Duration) (*routesPlan, error) {
	start := time.Now()
	if len(hosts) < 2 && most < 1 {
		return nil, Unreachable{fmt.Errorf("%d hosts can take part in an exchange: it takes two", len(hosts))}
	}
	routes, err := liquid.Trace(v.Fabric, tables, hosts, nil)
	if err != nil {
		return nil, err
	}
	if cut, pairs := len(routes.Cut), len(hosts)*(len(hosts)-1); float64(cut) > most*float64(pairs) {
		return nil, Unreachable{fmt.Errorf("%s: a plan may leave out %.2g %% of the %d pairs", cutText(routes), 100*most, pairs)}
	}
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	result, err := liquid.Make(limited, routes.Traffic, liquid.Options{})
	if err != nil || ctx.Err() != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	p := &routesPlan{routes: routes, result: result, took: time.Since(start)}
	if p.table, err = routes.Table(result.Schedule); err != nil {
		return nil, err
	}
	if err := routes.Check(p.table); err != nil {
		return nil, fmt.Errorf("the plan fails its check on the tables, which is a fault of forsd: %w", err)
	}
	return p, nil
}

// cutText returns the number of pairs without a path, and names the first.
func cutText(routes *liquid.Routes) string {
	c := routes.Cut[0]
	name := func(i int32) string { return routes.Fabric.Nodes[routes.Hosts[i].Node].Label() }
	return fmt.Sprintf("%d pairs of servers have no path by OpenSM's tables, the first from %s to %s: %v", len(routes.Cut), name(c.Src), name(c.Dst), c.Reason)
}

// Table returns the plan with an epoch number.
func (p *routesPlan) Table(epoch uint64) *phasetable.Table {
	t := *p.table
	t.Epoch = epoch
	return &t
}

// Is reports whether the published plan is for these routes and has at most as many phases. Such
// a plan stays in force, because planning under a time limit may yield a different plan of the
// same quality when repeated, for example after a restart.
func (p *routesPlan) Is(published *phasetable.View, about *planner.Report) bool {
	return about.Engine == EngineLiquid && about.TopologyHash == p.routes.Fabric.Hash() && published.Phases() <= len(p.result.Schedule) &&
		p.routes.Check(published.Table()) == nil
}

// Report describes the plan in the form for fat trees.
func (p *routesPlan) Report() planner.Report {
	r := p.result
	lmc, switches := 0, make(map[int32]bool)
	for _, h := range p.routes.Hosts {
		lmc = max(lmc, int(h.LMC))
		switches[p.routes.Fabric.At(h.PortRef).Peer] = true
	}
	warnings := []string{}
	for _, w := range p.Cautions() {
		warnings = append(warnings, w.Code)
	}
	return planner.Report{Version: 1, Summary: phasetable.Summarize(EngineLiquid, len(r.Schedule), r.Bound),
		Size: phasetable.Size{Servers: len(p.routes.Hosts), Leaves: len(switches), LMC: lmc}, LIDs: 1,
		Proof:    phasetable.Proof{UnreachablePairs: len(p.routes.Cut), Certificate: string(fors.ByNothing)},
		Warnings: warnings, PlanSeconds: math.Round(p.took.Seconds()*1e3) / 1e3, TopologyHash: p.routes.Fabric.Hash()}
}

// Cautions lists the limitations of the plan.
func (p *routesPlan) Cautions() []planner.Warning {
	var out []planner.Warning
	r := p.result
	if gap := len(r.Schedule) - r.Bound; gap > 0 {
		out = append(out, planner.Warning{Code: planner.PlanOverBound, Text: fmt.Sprintf("the plan has %d phases, %d more than its bound of %d", len(r.Schedule), gap, r.Bound)})
	}
	if len(p.routes.Cut) > 0 {
		out = append(out, planner.Warning{Code: planner.UnreachablePairs, Text: cutText(p.routes)})
	}
	return out
}

// Topology returns the API's form of the fabric, with some lanes held back.
func (v *View) Topology(held []controller.Lane) *api.Topology {
	k, own := v.kind.(ownRoutes)
	if !own {
		out := describe.Topology(v.Held(held), v.Complete)
		out.Kind = v.Kind.String()
		return out
	}
	out := &api.Topology{Hash: v.Fabric.Hash(), SeenAt: v.Complete, Kind: v.Kind.String(), Why: v.Reason, Leaves: []api.Leaf{}, Spines: []api.Spine{},
		Hosts: []api.Host{}, Servers: len(k.hosts), Findings: []api.Finding{}}
	taking := make(map[ib.GUID]bool, len(k.hosts))
	for _, h := range k.hosts {
		taking[h.GUID] = true
	}
	for _, h := range v.Fabric.ConnectedHosts() {
		out.Hosts = append(out.Hosts, api.Host{GUID: h.GUID, Name: v.Fabric.Nodes[h.Node].Name, LID: h.LID, LMC: h.LMC, Server: taking[h.GUID], Role: topology.UnknownRole.String()})
	}
	out.Bystanders = len(out.Hosts) - out.Servers
	return out
}
