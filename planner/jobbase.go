package planner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// ErrNotRouted says that a job has no plan for base LIDs on the tables in force.
var ErrNotRouted = errors.New("not all tables that the switches may hold lead the base LIDs of all of the job's hosts over the same lanes, all of them up")

// PlanJobFixed plans the exchange of the tree's servers for base LIDs as they are routed
// by all of the tables, of which there must be one at least, and verifies it on them. Its
// bound is that of the lanes which the tables give.
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
	for _, leaf := range leavesWithServers(t) {
		for _, i := range t.Servers {
			h, lane := &t.Hosts[i], int(fors.Local)
			if h.Leaf != leaf {
				if lane = laneOf(t, tables, leaf, h.Leaf, h.LID); lane < 0 {
					return nil, ErrNotRouted
				}
			}
			wish.Via = append(wish.Via, fors.Lane(lane))
		}
	}
	plan, err := fors.PlanOneLID(ctx, tree, wish)
	if err != nil {
		return nil, err
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

// Least is the fewest phases that the LIDs in use allow, and what proves it.
func (s *Schedule) Least() (phases int, by fors.Certificate) { return s.least, s.by }

// LeastForJob is the fewest phases that a plan for base LIDs of the tree's servers may
// have if they may be routed anew.
func LeastForJob(t *topology.FatTree) (int, error) {
	least, _, err := fors.LeastOneLID(forsTree(t))
	return least, err
}

// jobPins is what the tables must have for a job whose base LIDs are routed.
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

// routed is the plans of jobs whose base LIDs are routed.
type routed struct {
	made map[uint64]*Schedule
	pins []lft.Pin // the entries that follow
}

// routedJobs plans the jobs whose base LIDs are routed, each on its own part of the tree.
// One that cannot be planned stays as it is routed anyway.
func routedJobs(ctx context.Context, t *topology.FatTree, jobs []Job) (r routed, err error) {
	r.made = map[uint64]*Schedule{}
	for i := range jobs {
		j := &jobs[i]
		if !j.Routed {
			continue
		}
		sub, _ := JobTree(t, j, jobs)
		s, err := PlanJobRouted(ctx, sub)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if err == nil {
			r.made[j.ID] = s
			r.pins = append(r.pins, s.jobPins()...)
		}
	}
	return r, nil
}

// on is the jobs' plans that hold on the tables.
func (r routed) on(tables *lft.Tables) map[uint64]*Schedule {
	for id, s := range r.made {
		if s.Check(tables) != nil {
			delete(r.made, id)
		}
	}
	return r.made
}

// MayRoute tells whether base LIDs of jobs can be routed by their own plans: not where
// spines have several cables to a leaf, for they know the destination alone; and where
// each lane has an LID of its own, only if there is one more for the lane that a base LID
// leaves.
func (s Settings) MayRoute(t *topology.FatTree) bool {
	if parallel(t) {
		return false
	}
	if lids, err := s.groups(t); err != nil || lids > 0 {
		return err == nil
	}
	return !slices.ContainsFunc(t.Hosts, func(h topology.Host) bool { return h.Leaf >= 0 && 1<<h.LMC <= t.Lanes })
}

// Moves is the tree with the members of jobs whose base LIDs are routed marked as Moved,
// where each lane has an LID of its own.
func Moves(t *topology.FatTree, jobs []Job) *topology.FatTree {
	moved := map[topology.GUID]bool{}
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
