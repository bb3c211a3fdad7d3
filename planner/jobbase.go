package planner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// ErrNotRouted means that a job has no plan for base LIDs on the tables in force.
var ErrNotRouted = errors.New("not all tables that the switches may hold lead the base LIDs of all of the job's hosts over the same lanes, all of them up")

// PlanJobFixed plans the exchange of the tree's servers for base LIDs as routed by all of
// the tables, at least one, and verifies it on them. Its bound is that of the lanes that
// the tables give.
func PlanJobFixed(ctx context.Context, t *topology.FatTree, on ...*lft.Tables) (*Schedule, error) {
	start := time.Now()
	if len(t.Servers) == 0 {
		return nil, ErrNoMember
	}
	if len(on) == 0 {
		return nil, errors.New("plan a job for base LIDs: the tables in force are not known")
	}
	tree, tables := forsTree(t), lft.Common(on...)
	wish := fors.Wish{Keep: true}
	if tree.Spine != nil {
		wish.Down = slices.Repeat([]fors.Lane{fors.Local}, len(t.Servers)*t.Lanes)
	}
	for _, leaf := range leavesWithServers(t) {
		for d, i := range t.Servers {
			h, lane, down := &t.Hosts[i], int(fors.Local), 0
			if h.Leaf != leaf {
				if lane, down = lanesOf(t, tables, leaf, h.Leaf, h.LID); lane < 0 {
					return nil, ErrNotRouted
				}
				if wish.Down != nil {
					wish.Down[d*t.Lanes+lane] = fors.Lane(down)
				}
			}
			wish.Via = append(wish.Via, fors.Lane(lane))
		}
	}
	plan, err := fors.PlanOneLID(ctx, tree, wish)
	if err != nil {
		return nil, err
	}
	if plan.Kept > plan.LeastPhases {
		plan.LeastPhases, plan.LeastBy = plan.Kept, fors.ByLID
	}
	s, err := bindBase(t, plan, start)
	if err != nil {
		return nil, err
	}
	return s, s.Check(on...)
}

// PlanJobRouted plans the exchange of the tree's servers for base LIDs on lanes that the
// plan chooses: tables follow from it. It is not verified.
func PlanJobRouted(ctx context.Context, t *topology.FatTree) (*Schedule, error) {
	start := time.Now()
	if len(t.Servers) == 0 {
		return nil, ErrNoMember
	}
	tree := forsTree(t)
	plan, err := fors.PlanOneLID(ctx, tree, fors.Wish{})
	if err != nil {
		return nil, err
	}
	return bindBase(t, plan, start)
}

// Least returns the fewest phases that the LIDs in use allow, with the certificate.
func (s *Schedule) Least() (phases int, by fors.Certificate) { return s.least, s.by }

// LeastForJob returns the fewest phases of a plan for base LIDs of the tree's servers if
// these may be rerouted.
func LeastForJob(t *topology.FatTree) (int, error) {
	least, _, err := fors.LeastOneLID(forsTree(t))
	return least, err
}

// jobPins returns the entries that the tables need for a job whose base LIDs are routed.
func (s *Schedule) jobPins() (pins []lft.Pin) {
	t := s.Tree
	n := len(t.Servers)
	for _, leaf := range leavesWithServers(t) {
		for d, i := range t.Servers {
			if k := s.pins.Lane[(leaf*n+d)*s.pins.LIDs]; k >= 0 {
				pins = append(pins, lft.Pin{Leaf: leaf, Host: i, Lane: int(k)})
			}
		}
	}
	return pins
}

// routed holds the plans of jobs whose base LIDs are routed.
type routed struct {
	made map[uint64]*Schedule
	pins []lft.Pin // the entries that follow
}

// routedPlan is the plan of a job with all of its inputs.
type routedPlan struct {
	facts string
	plan  *Schedule // nil if there is none
}

// routedJobs plans the jobs whose base LIDs are routed, each on its own part of the tree,
// unless the memory has the plan for an unchanged part. A job that cannot be planned keeps
// its present routing.
func (s Settings) routedJobs(ctx context.Context, t *topology.FatTree) (r routed, err error) {
	plans := make([]routedPlan, len(s.Jobs))
	_, err = parallel.Each(ctx, len(s.Jobs), runtime.GOMAXPROCS(0), func(int) func(int) error {
		return func(i int) error {
			j := &s.Jobs[i]
			if !j.Routed {
				return nil
			}
			sub, _ := JobTree(t, j, s.Jobs)
			x := routedPlan{facts: JobFacts(sub)}
			if known, ok := s.Memory.job(j.ID); ok && known.facts == x.facts {
				x = known
			} else if x.plan, _ = PlanJobRouted(ctx, sub); ctx.Err() != nil {
				return ctx.Err()
			}
			if x.plan != nil {
				x.plan = x.plan.On(sub)
			}
			plans[i] = x
			return nil
		}
	})
	if err != nil {
		return r, err
	}
	r.made = map[uint64]*Schedule{}
	for i, x := range plans {
		if x.plan != nil {
			r.made[s.Jobs[i].ID] = x.plan
			r.pins = append(r.pins, x.plan.jobPins()...)
		}
	}
	s.Memory.keepJobs(s.Jobs, plans)
	return r, nil
}

// job returns the plan of a job as last routed.
func (m *Memory) job(id uint64) (x routedPlan, known bool) {
	if m == nil {
		return x, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	x, known = m.jobs[id]
	return x, known
}

// keepJobs stores the plans of these jobs and drops all others.
func (m *Memory) keepJobs(jobs []Job, plans []routedPlan) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs = map[uint64]routedPlan{}
	for i, x := range plans {
		if jobs[i].Routed {
			m.jobs[jobs[i].ID] = x
		}
	}
}

// on returns the jobs' plans that hold on the tables.
func (r routed) on(tables *lft.Tables) map[uint64]*Schedule {
	for id, s := range r.made {
		if s.Check(tables) != nil {
			delete(r.made, id)
		}
	}
	return r.made
}

// MayRoute reports whether base LIDs of jobs can be routed by their own plans. They cannot
// if spines have several cables to a leaf, because a spine's table only knows the
// destination; and if each lane has an LID of its own, there must be one more for the lane
// that a base LID leaves.
func (s Settings) MayRoute(t *topology.FatTree) bool {
	if cabledTwice(t) {
		return false
	}
	if lids, err := s.groups(t); err != nil || lids > 0 {
		return err == nil
	}
	return !slices.ContainsFunc(t.Hosts, func(h topology.Host) bool { return h.Leaf >= 0 && 1<<h.LMC <= t.Lanes })
}

// Moves returns the tree with the members of jobs whose base LIDs are routed marked as
// Moved, if each lane has an LID of its own.
func Moves(t *topology.FatTree, jobs []Job) *topology.FatTree {
	moved := map[ib.GUID]bool{}
	for _, j := range jobs {
		for _, g := range j.Members {
			moved[g] = moved[g] || j.Routed
		}
	}
	out := *t
	out.Hosts = slices.Clone(t.Hosts)
	for i := range out.Hosts {
		out.Hosts[i].Moved = moved[out.Hosts[i].GUID] && 1<<out.Hosts[i].LMC > t.Lanes
	}
	return &out
}

// Policy is whether base LIDs of jobs are routed by the jobs' own plans.
type Policy string

// The policies. With RouteAuto they are routed if that saves more than 3 % of the phases,
// or if a job would otherwise take lanes reserved for another one. Base LIDs of jobs with
// reserved lanes are always routed.
const (
	RouteAuto   Policy = "auto"
	RouteNever  Policy = "never"
	RouteAlways Policy = "always"
)

// WorthRouting reports whether the base LIDs of a job should be routed by its own plan
// instead of the plan fixed, which may be nil: by policy auto if that plan is long or takes
// lanes reserved for another job. A job on one leaf has nothing to route.
func (s Settings) WorthRouting(t *topology.FatTree, job *Job, jobs []Job, fixed *Schedule) (bool, error) {
	sub, _ := JobTree(t, job, jobs)
	if len(leavesWithServers(sub)) < 2 || !s.MayRoute(t) {
		return false, nil
	}
	if len(job.Lanes) > 0 || s.JobLIDs != "" && s.JobLIDs != RouteAuto {
		return len(job.Lanes) > 0 || s.JobLIDs == RouteAlways, nil
	}
	least, err := LeastForJob(sub)
	return fixed == nil || 100*fixed.Plan.Phases > 103*least || !fixed.keepsTo(sub), err
}

// keepsTo reports whether the schedule only uses lanes that are up in a tree with the same
// servers.
func (s *Schedule) keepsTo(t *topology.FatTree) bool {
	n := len(t.Servers)
	for i, d := range s.Rows.To {
		if k := int(s.Rows.Lane[i]); d >= 0 && k >= 0 && !(t.LaneUp(t.Hosts[t.Servers[i%n]].Leaf, k) && t.LaneUp(t.Hosts[t.Servers[d]].Leaf, k)) {
			return false
		}
	}
	return true
}

// JobFacts returns all inputs of the plan of a job on its part of a tree.
func JobFacts(sub *topology.FatTree) string {
	var facts []byte
	for _, leaf := range leavesWithServers(sub) {
		facts = fmt.Appendf(facts, "leaf %d:", leaf)
		for k := range sub.Lanes {
			if sub.LaneUp(leaf, k) {
				facts = fmt.Appendf(facts, " %d", k)
			}
		}
	}
	for _, i := range sub.Servers {
		h := &sub.Hosts[i]
		facts = fmt.Appendf(facts, " %s %d %d %d %d %t", h.GUID, h.Leaf, h.Alpha, h.LID, h.LMC, h.Moved)
	}
	return string(facts)
}

// On returns the schedule on a tree with the same servers and lanes.
func (s *Schedule) On(t *topology.FatTree) *Schedule {
	out := *s
	out.Tree = t
	return &out
}

// PlanJobBeside plans a job among others as PlanJob does, on the lanes available to it. If
// tables follow from the fabric's plan and the job's base LIDs are routed by its own plan,
// its lanes are those that the tables give to base LIDs.
func PlanJobBeside(ctx context.Context, t *topology.FatTree, job *Job, jobs []Job, s Settings, on ...*lft.Tables) (*Schedule, error) {
	t = s.Apart(t)
	sub := JobGround(t, job, jobs, s)
	follow, err := s.TablesFollow(t)
	if err != nil || !follow {
		return s.planJob(ctx, sub, job.Members, on)
	}
	fixed, err := PlanJobFixed(ctx, sub, on...)
	if err == nil {
		tree := forsTree(sub)
		tree.Closed = nil
		fixed.Plan.Bounds = fors.ComputeBounds(tree) // of a plan that may choose lanes
		if fixed.least, fixed.by = fixed.Plan.LowerBound, fixed.Plan.Certificate; fixed.Plan.Gap() > 0 {
			fixed.Warnings = append(fixed.Warnings, Warning{Code: PlanOverBound, Text: fmt.Sprintf("the plan has %d phases on the lanes that the tables give, %d more than the bound of %d", fixed.Plan.Phases, fixed.Plan.Gap(), fixed.least)})
		}
		if job.Routed {
			return fixed, nil
		}
	}
	other, err2 := s.planJob(ctx, sub, job.Members, on)
	if err == nil && (err2 != nil || fixed.Plan.Phases < other.Plan.Phases) {
		return fixed, nil
	}
	return other, err2
}

// JobGround returns the tree that PlanJobBeside plans on.
func JobGround(t *topology.FatTree, job *Job, jobs []Job, s Settings) *topology.FatTree {
	if follow, err := s.TablesFollow(t); err == nil && follow {
		return Restrict(t, job.Members)
	}
	sub, _ := JobTree(t, job, jobs)
	return sub
}
