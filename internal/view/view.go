// Package view is forsd's view of a fabric: a fat tree is seen through its baseline, any other
// fabric directly. A view includes the tables and plans made for the fabric.
package view

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// View is a fabric and the data derived from it.
type View struct {
	kind
	ID       string // identifies fabric and baseline; the controller's snapshot ID
	Kind     controller.Kind
	Reason   string // why it is not a fat tree; empty for a fat tree
	Fabric   *topology.Fabric
	Tree     *topology.FatTree // the fabric through the baseline; OwnRoutes has none
	Down     []controller.Lane // lanes that no schedule can use, ascending
	SeenAt   time.Time
	Complete time.Time     // the time the dump was complete
	Why      string        // the cause, unless it was a dump
	Jobs     []planner.Job // jobs that the tables are made for
	AtOnce   bool          // ThreeLevels: a new plan may follow later if it is worth it

	routed *routed // tables already built for this view; shared by views with the same ID
}

// kind is how forsd plans and routes a fabric of some kind: a fat tree of two levels or of three,
// or the routes that OpenSM has.
type kind interface {
	// identity returns a digest of all that determines plans and tables. It excludes names: a
	// renamed switch changes nothing.
	identity() string
	// without returns the kind without the hosts of some leaves in any plan.
	without(leaves []ib.GUID) kind
	// mayPlan returns an error if a first plan would leave out too large a share of the pairs.
	mayPlan(most float64) error
	// route makes and verifies tables, and the plan that they follow from, if any.
	route(ctx context.Context, v *View, hold []controller.Lane, by planner.Settings) (Routes, error)

	// Held returns the tree with some lanes excluded from schedules, nil if there is none.
	Held(lanes []controller.Lane) *topology.FatTree
	// Carries verifies a published plan on the tables of the fabric, with some lanes held back,
	// and returns the first fault.
	Carries(tables *lft.Tables, plan *phasetable.View, hold []controller.Lane) error
	// Order returns what of plan and tables comes first.
	Order(hold []controller.Lane, by planner.Settings) (Order, error)
	// LIDs returns how many LIDs of a server plans use; 0 without a tree.
	LIDs() int
	// Members finds host ports by name. Unknown names are an error, or are returned if skip is set.
	Members(names []string, skip bool) (members []planner.Member, unknown []string, err error)
}

// Order is what of plan and tables comes first.
type Order int

// The orders.
const (
	AnyPlan      Order = iota // tables carry any plan that uses the lanes they have
	TablesFollow              // the plan is made first, and tables for it
	PlanFollows               // OpenSM makes the tables, and the plan is made on them
)

// of returns the view of a fabric of a kind.
func of(f *topology.Fabric, k kind) *View {
	v := &View{kind: k, ID: k.identity(), Fabric: f, Tree: k.Held(nil), routed: &routed{}}
	if v.Tree == nil {
		v.Kind = controller.OwnRoutes
		return v
	}
	switch {
	case v.Tree.Pods != nil:
		v.Kind = controller.ThreeLevels
	case topology.ShapeOf(v.Tree, nil) == topology.PartTree:
		v.Kind = controller.PartlyCovered
	}
	for _, x := range exclusions.Links(v.Tree) {
		if x.State == topology.Missing || x.State == topology.Degraded {
			v.Down = append(v.Down, x.Lane)
		}
	}
	slices.SortFunc(v.Down, controller.Compare)
	return v
}

// routed holds tables by the set of lanes held back.
type routed struct {
	mu   sync.Mutex
	made []Routes
	own  *routesPlan // the last plan on OpenSM's routes
	bare []Routes    // without the base plan's own entries
}

// Routes has the tables of a view with some lanes held back.
type Routes struct {
	hold   []controller.Lane
	Tables *lft.Tables
	Plan   Carried                      // the tables follow from it; nil if they carry any plan
	NoPlan error                        // why a plan is missing although tables follow from plans
	Base   Carried                      // for programs that send to base LIDs; may be nil
	Jobs   map[uint64]*planner.Schedule // for base LIDs, of the routed jobs
	Load   phasetable.Load              // load of the tables
	Notes  []planner.Warning            // about the tables and the base plan
}

// New fits the fabric to the baseline, with the hosts and the exchanges of the settings.
func New(f *topology.Fabric, b *topology.Baseline, c *config.Planning) (*View, error) {
	var tree *topology.FatTree
	if b.Pods != nil {
		t, err := topology.FitPods(f, b.Pods, c.Exclude)
		if err != nil {
			return nil, err
		}
		tree = t.Exchange()
	} else {
		var err error
		if tree, err = topology.Fit(f, b, c.Exclude); err != nil {
			return nil, err
		}
	}
	if tree = divided(tree, &c.Exchange); len(tree.Servers) == 0 {
		return nil, &topology.NotFatTree{Where: "the fabric", Why: fmt.Sprintf("shows no server on any leaf of the baseline, and %d nodes in all", len(f.Nodes))}
	}
	if tree.Pods != nil {
		return of(f, threeLevels{tree}), nil
	}
	return of(f, twoLevels{tree}), nil
}

// divided returns the tree with the exchanges of the settings. If they do not fit the fabric, a
// finding says why, and there is one exchange of all servers.
func divided(t *topology.FatTree, x *config.Exchange) *topology.FatTree {
	out, notes, err := x.Divide(t, true)
	if err != nil {
		out, notes = t, []string{"planning.exchange is not followed, and all servers exchange data with all: " + err.Error()}
	}
	if x.Rails && err == nil {
		notes = notes[1:] // the first only says what was found
	}
	if len(notes) > 0 {
		out = out.Noting(topology.Finding{Code: topology.ExchangeDiffers, Text: strings.Join(notes, "; ")})
	}
	return out
}

// withHosts appends the facts about hosts that determine plans and tables.
func withHosts(facts []byte, t *topology.Common) []byte {
	le := binary.LittleEndian
	for _, i := range t.Servers {
		if len(t.Exchanges) > 1 {
			facts = le.AppendUint32(facts, uint32(t.Hosts[i].Exchange))
		}
	}
	for i := range t.Hosts {
		h := &t.Hosts[i]
		facts = le.AppendUint64(facts, uint64(h.GUID))
		facts = le.AppendUint32(facts, uint32(h.Leaf))
		facts = le.AppendUint32(facts, uint32(h.Alpha)|uint32(h.First)<<16)
		facts = append(facts, 0)
		if h.Server {
			facts[len(facts)-1] = 1
		} else if h.Out {
			facts[len(facts)-1] = 2
		}
	}
	return facts
}

func digest(facts []byte) string {
	sum := sha256.Sum256(facts)
	return hex.EncodeToString(sum[:8])
}

// Without returns the view with the hosts of some leaves excluded from all plans, including
// those of jobs.
func (v *View) Without(leaves []ib.GUID) *View {
	if v.Tree == nil || len(leaves) == 0 {
		return v
	}
	out := *v
	out.kind = v.kind.without(leaves)
	out.ID, out.Tree, out.routed = out.identity(), out.Held(nil), &routed{}
	return out.Stage(v.AtOnce)
}

// without excludes the hosts of some leaves from all plans.
func without(hosts []topology.Host, out func(leaf int) bool) (all []topology.Host, servers []int) {
	all = slices.Clone(hosts)
	for i := range all {
		h := &all[i]
		if h.Leaf >= 0 && out(h.Leaf) {
			h.Server, h.Out = false, true
		}
		if h.Server {
			servers = append(servers, i)
		}
	}
	return all, servers
}

// WithJobs returns the view with the current jobs. If base LIDs of jobs are routed, tables and
// plans depend on the jobs, and the ID includes them after a plus sign.
func (v *View) WithJobs(jobs []planner.Job) *View {
	out := *v
	two, is := v.kind.(twoLevels)
	if v.Tree != nil && !is {
		return &out
	}
	if out.ID, out.Jobs = v.Bare(), nil; v.Tree == nil {
		return &out
	}
	for _, j := range jobs {
		if j.Routed || len(j.Lanes) > 0 {
			out.Jobs = append(out.Jobs, j)
		}
	}
	if !slices.ContainsFunc(out.Jobs, func(j planner.Job) bool { return j.Routed }) {
		out.Jobs = nil
	} else if facts, err := json.Marshal(out.Jobs); err == nil {
		sum := sha256.Sum256(facts)
		out.ID += "+" + hex.EncodeToString(sum[:4])
	}
	if out.ID != v.ID {
		out.Tree, out.routed = planner.Moves(two.tree, out.Jobs), &routed{}
		out.kind = twoLevels{out.Tree}
	}
	return &out
}

// Bare returns the ID of the fabric without its jobs, and without the mark of a plan for
// immediate use.
func (v *View) Bare() string { return Bare(v.ID) }

// Bare returns a view's ID without the part after the plus sign.
func Bare(id string) string {
	id, _, _ = strings.Cut(id, "+")
	return id
}

// Snapshot returns the controller's form of the view.
func (v *View) Snapshot() *controller.Snapshot {
	return &controller.Snapshot{ID: v.ID, Kind: v.Kind, Why: v.Reason, Down: v.Down, View: v}
}

// Of returns the view of a controller's snapshot.
func Of(s *controller.Snapshot) *View { return s.View.(*View) }

// TwoLevels returns the tree if it has two levels. For any other fabric, and for a nil view, it
// returns nil.
func (v *View) TwoLevels() *topology.FatTree {
	if v == nil || v.Tree == nil || v.Tree.Pods != nil {
		return nil
	}
	return v.Tree
}

// Familiar returns the tree reduced to the servers that the epoch knows, or nil if that changes
// nothing or leaves no server. A new server is unreachable until its tables are in place; until
// then it must not keep a lost lane in the plan.
func (v *View) Familiar(t *topology.FatTree, e *store.Epoch) *topology.FatTree {
	if e == nil {
		return nil
	}
	old := *t
	old.Servers = nil
	for _, i := range t.Servers {
		if _, known := e.Plan.FindGUID(t.Hosts[i].GUID); known {
			old.Servers = append(old.Servers, i)
		}
	}
	if len(old.Servers) == 0 || len(old.Servers) == len(t.Servers) {
		return nil
	}
	return &old
}

// Route builds and verifies the tables of the view, and the plan that they follow from, if any,
// once for each set of held lanes.
func (v *View) Route(ctx context.Context, hold []controller.Lane, by planner.Settings) (Routes, error) {
	v.routed.mu.Lock()
	defer v.routed.mu.Unlock()
	if r := find(v.routed.made, hold); r != nil {
		return *r, nil
	}
	r, err := v.route(ctx, v, hold, by)
	if err != nil {
		return Routes{}, err
	}
	r.hold = slices.Clone(hold)
	v.routed.made = append(v.routed.made, r)
	return r, nil
}

// Build builds tables on which any plan by lanes can be verified, if the view has such tables.
// To lay out or write tables, call Route: its tables have additional entries for the base plan,
// which no plan by lanes uses.
func (v *View) Build(hold []controller.Lane) (*lft.Tables, error) {
	v.routed.mu.Lock()
	defer v.routed.mu.Unlock()
	for _, known := range [][]Routes{v.routed.made, v.routed.bare} {
		if r := find(known, hold); r != nil {
			return r.Tables, nil
		}
	}
	tables, err := lft.Build(v.Held(hold))
	if err != nil {
		return nil, err
	}
	v.routed.bare = append(v.routed.bare, Routes{hold: slices.Clone(hold), Tables: tables})
	return tables, nil
}

// LetGo drops the tables and plans of a view, which take megabytes. They are made again if the
// view is used again.
func (v *View) LetGo() {
	if v.routed.mu.TryLock() { // otherwise the view is in use
		v.routed.made, v.routed.bare, v.routed.own = nil, nil, nil
		v.routed.mu.Unlock()
	}
}

// find returns the routes made for these held lanes, or nil.
func find(made []Routes, hold []controller.Lane) *Routes {
	for i := range made {
		if slices.Equal(made[i].hold, hold) {
			return &made[i]
		}
	}
	return nil
}

// Lost returns the share of the servers in force that the view lacks. Without an epoch it
// counts the baseline's host ports.
func (v *View) Lost(e *store.Epoch, b *topology.Baseline) float64 {
	present := v.present()
	total, missing := 0, 0
	count := func(g ib.GUID) {
		total++
		if !present[g] {
			missing++
		}
	}
	if e != nil {
		for s := range e.Plan.Servers() {
			count(e.Plan.Server(s).GUID)
		}
	} else if b != nil {
		for h := range b.Hosts() {
			count(h.GUID)
		}
	}
	if total == 0 {
		return 0
	}
	return float64(missing) / float64(total)
}

// Shares adopts the tables built for an older view of the same fabric.
func (v *View) Shares(old *View) { v.routed = old.routed }

// Findings lists the differences between the tree and its baseline.
func (v *View) Findings() []health.Finding {
	if v.Tree == nil {
		return nil
	}
	return v.Tree.Findings
}

// present returns the set of host ports in the view.
func (v *View) present() map[ib.GUID]bool {
	present := make(map[ib.GUID]bool, len(v.Fabric.Nodes))
	if v.Tree == nil {
		for _, h := range v.Fabric.ConnectedHosts() {
			present[h.GUID] = true
		}
		return present
	}
	for i := range v.Tree.Hosts {
		present[v.Tree.Hosts[i].GUID] = true
	}
	return present
}
