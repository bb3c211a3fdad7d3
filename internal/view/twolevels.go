package view

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// twoLevels is a fat tree of two levels.
type twoLevels struct{ tree *topology.FatTree }

func (k twoLevels) Held(lanes []controller.Lane) *topology.FatTree {
	if len(lanes) == 0 {
		return k.tree
	}
	t := *k.tree
	t.Leaves = slices.Clone(t.Leaves)
	for _, l := range lanes {
		if l.Leaf < len(t.Leaves) && l.Lane < t.Lanes {
			t.Leaves[l.Leaf].Cables = slices.Clone(t.Leaves[l.Leaf].Cables)
			t.Hold(l.Leaf, l.Lane)
		}
	}
	return &t
}

func (k twoLevels) identity() string {
	le, t := binary.LittleEndian, k.tree
	facts := []byte(t.Fabric.Hash())
	for l := range t.Leaves {
		facts = le.AppendUint64(facts, uint64(t.Leaves[l].GUID))
		for _, c := range t.Leaves[l].Cables {
			facts = append(facts, c.LeafPort, c.SpinePort, byte(c.State))
		}
	}
	return digest(withHosts(facts, &t.Common))
}

func (k twoLevels) without(leaves []ib.GUID) kind {
	t := *k.tree
	t.Hosts, t.Servers = without(t.Hosts, func(leaf int) bool { return slices.Contains(leaves, t.Leaves[leaf].GUID) })
	return twoLevels{&t}
}

func (k twoLevels) mayPlan(most float64) error {
	if pairs, of := planner.LaneLess(k.tree); float64(pairs) > most*float64(of) {
		return &planner.TooManyUnreachable{Pairs: pairs, Of: of, Limit: most}
	}
	return nil
}

func (k twoLevels) route(ctx context.Context, v *View, hold []controller.Lane, by planner.Settings) (r Routes, err error) {
	by.Jobs = v.Jobs
	made, err := planner.Route(ctx, k.Held(hold), by)
	if err != nil {
		return r, err
	}
	r = Routes{Tables: made.Tables, Jobs: made.Jobs, Load: made.Load, Notes: made.Notes}
	if made.Schedule != nil {
		r.Plan = TreePlan{made.Schedule}
	}
	if made.Base != nil {
		r.Base = TreePlan{made.Base}
	}
	return r, nil
}

func (k twoLevels) Carries(tables *lft.Tables, plan *phasetable.View, hold []controller.Lane) error {
	rows, err := RowsOf(plan, k.tree)
	if err != nil {
		return err
	}
	tree := k.Held(hold)
	return verify.Plan(tree, tables, rows, planner.Unreachable(tree, rows))
}

func (k twoLevels) Order(hold []controller.Lane, by planner.Settings) (Order, error) {
	follow, err := by.TablesFollow(k.Held(hold))
	if follow {
		return TablesFollow, err
	}
	return AnyPlan, err
}

func (k twoLevels) LIDs() int { return k.tree.Lanes }

func (k twoLevels) Members(names []string, skip bool) ([]planner.Member, []string, error) {
	return treeMembers(k.tree, names, skip)
}

// treeMembers finds host ports of a tree by name.
func treeMembers(t *topology.FatTree, names []string, skip bool) (members []planner.Member, unknown []string, err error) {
	if skip {
		return planner.FindKnownMembers(t, names)
	}
	members, err = planner.FindMembers(t, names)
	return members, nil, err
}

// RowsOf maps the rows of a published table to the servers of a tree. It fails unless both have
// exactly the same servers.
func RowsOf(table *phasetable.View, t *topology.FatTree) (verify.Rows, error) {
	place, err := places(table, t)
	if err != nil {
		return verify.Rows{}, err
	}
	n := len(place)
	rows := verify.Rows{Phases: table.Phases(), To: make([]int32, n*table.Phases()), Lane: make([]int16, n*table.Phases()), DLID: make([]ib.LID, n*table.Phases())}
	for s := range n {
		row := table.Row(s)
		for p := range table.Phases() {
			at := p*n + int(place[s])
			rows.To[at], rows.Lane[at], rows.DLID[at] = transfer(row.At(p), place)
		}
	}
	return rows, nil
}

// SameRows reports whether a published table is the same schedule of the tree, transfer by
// transfer.
func SameRows(table *phasetable.View, t *topology.FatTree, rows verify.Rows) bool {
	place, err := places(table, t)
	if err != nil || table.Phases() != rows.Phases {
		return false
	}
	n := len(place)
	for s := range n {
		row := table.Row(s)
		for p := range table.Phases() {
			at := p*n + int(place[s])
			to, lane, dlid := transfer(row.At(p), place)
			if to != rows.To[at] || lane != rows.Lane[at] || dlid != rows.DLID[at] {
				return false
			}
		}
	}
	return true
}

// places returns the tree's index of each server of a published table.
func places(table *phasetable.View, t *topology.FatTree) ([]int32, error) {
	n := table.Servers()
	if n != len(t.Servers) {
		return nil, fmt.Errorf("the plan has %d servers, the fabric %d", n, len(t.Servers))
	}
	place := make([]int32, n)
	for i, h := range t.Servers {
		s, ok := table.FindGUID(t.Hosts[h].GUID)
		if !ok {
			return nil, fmt.Errorf("%s (%s) is not in the plan", t.Hosts[h].Name, t.Hosts[h].GUID)
		}
		place[s] = int32(i)
	}
	return place, nil
}

// transfer converts the sending part of a table's entry to the tree's indices.
func transfer(x phasetable.Entry, place []int32) (to int32, lane int16, dlid ib.LID) {
	if x.SendTo < 0 {
		return -1, -1, 0
	}
	return place[x.SendTo], int16(x.Lane), x.DLID
}
