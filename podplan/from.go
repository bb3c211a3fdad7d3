package podplan

import (
	"context"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/topology"
)

// Changes says how a plan and its tables differ from those that they were made from.
type Changes struct {
	PairsChanged  int  `json:"pairs_changed"`        // ordered pairs of servers that have another destination LID
	BlocksChanged int  `json:"table_blocks_changed"` // blocks of 64 entries of tables
	TableBlocks   int  `json:"table_blocks"`         // in all
	Repaired      bool `json:"repaired"`             // else the plan is made anew
	AnewPhases    int  `json:"anew_phases"`          // of a plan made anew
	AnewChanged   int  `json:"anew_blocks_changed"`  // blocks of tables that it changes
}

// MakeFrom plans from a plan and its tables as they were written. It repairs the plan, and
// makes one anew: it takes that which changes fewer blocks of tables, of equals the shorter.
// A plan that cannot be repaired is made anew.
func MakeFrom(ctx context.Context, t *topology.PodTree, s Settings, old *phasetable.View, tables *lft.Tables) (*Result, error) {
	r, err := Make(ctx, t, s)
	if err != nil {
		return nil, err
	}
	anew := lft.Changes(tables, r.Tables).Blocks
	c := &Changes{AnewPhases: r.Plan.Phases(), AnewChanged: anew, BlocksChanged: anew, TableBlocks: r.Tables.Blocks()}
	if was := adopt(t, old, tables); was != nil {
		again, err := was.Repair(ctx, t)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			n := lft.Changes(tables, again.Tables).Blocks
			if n < c.BlocksChanged || n == c.BlocksChanged && again.Plan.Phases() < r.Plan.Phases() {
				r, c.BlocksChanged, c.Repaired = again, n, true
			}
		}
	}
	now, err := phasetable.New(r.Table(0))
	if err != nil {
		return nil, err
	}
	c.PairsChanged, r.changes = len(phasetable.Changes(old, now)), c
	return r, nil
}

// adopt is a plan that was written, as if it were for this tree: the start of a repair. It is
// nil where the tree has other servers, LIDs or lanes, or the plan leaves out a pair or is
// not one of this package.
func adopt(t *topology.PodTree, old *phasetable.View, tables *lft.Tables) *Result {
	n := len(t.Servers)
	if old.Servers() != n || old.Lanes() != len(t.Lanes)+t.Planes {
		return nil
	}
	shape := Shape(t)
	x := &adoption{View: old, r: &Result{Tree: t, shape: shape, LIDs: 1, Tables: tables}, number: make([]int, n), server: make([]int32, n)}
	for i, h := range t.Servers {
		k, known := old.FindGUID(t.Hosts[h].GUID)
		if e := old.Server(k); !known || e.LID != t.Hosts[h].LID || e.LMC != t.Hosts[h].LMC {
			return nil
		}
		x.number[i], x.server[k] = k, int32(i)
	}
	if p := pods.WholeShift(shape); p != nil && x.isShift(p) {
		x.r.Plan = p
		return x.r
	}
	most := 0
	for a := range shape.Leaves {
		most = max(most, len(shape.Leaves[a].Slots))
	}
	for group := most; group > 0; group-- {
		if old.Phases()%group == 0 && x.inBlocks(group) {
			return x.r
		}
	}
	return nil
}

// adoption reads a plan that was written.
type adoption struct {
	*phasetable.View
	r      *Result
	number []int   // [server of the tree] its number in the plan
	server []int32 // [number in the plan] server of the tree
}

// isShift tells whether the plan is a shift.
func (x *adoption) isShift(p *pods.Plan) bool {
	if p.Phases() != x.Phases() {
		return false
	}
	to, way := make([]int32, len(x.number)), make([]int16, len(x.number))
	for phase := range x.Phases() {
		p.Row(phase, to, way, nil, nil)
		for s, d := range to {
			e := x.At(x.number[s], phase)
			if (d == pods.Idle) != (e.SendTo == phasetable.Idle) || d != pods.Idle && (x.server[e.SendTo] != d || e.DLID != x.Server(e.SendTo).LID) {
				return false
			}
		}
	}
	return true
}

// inBlocks reads the plan as one in blocks for groups of so many servers, and is false where
// it is none.
func (x *adoption) inBlocks(group int) bool {
	p := &pods.Plan{Engine: pods.Pods, Group: group, Blocks: x.Phases() / group, First: []int32{0}, Base: []int32{0}}
	for a := range x.r.shape.Leaves {
		n := len(x.r.shape.Leaves[a].Slots)
		p.Base = append(p.Base, p.Base[a]+int32(n))
		p.First = append(p.First, p.First[a]+int32((n+group-1)/group*group))
	}
	slots := int(p.First[len(p.First)-1])
	p.To, p.Way = make([]int32, slots*p.Blocks), make([]int16, slots*p.Blocks)
	for i := range p.To {
		p.To[i], p.Way[i] = pods.Idle, -1
	}
	offset := make([]uint8, len(p.To))
	pairs := 0
	for a := range x.r.shape.Leaves {
		for s := p.Base[a]; s < p.Base[a+1]; s++ {
			place := int(s - p.Base[a])
			first := int(p.First[a]) + place/group*group
			for phase := range x.Phases() {
				e := x.At(x.number[s], phase)
				if e.SendTo == phasetable.Idle {
					continue
				}
				pairs++
				at := phase/group*slots + first + (place+phase)%group
				d, way, o := x.server[e.SendTo], int16(e.Lane), uint8(e.DLID-x.Server(e.SendTo).LID)
				if p.To[at] != pods.Idle && (p.To[at] != d || p.Way[at] != way || offset[at] != o) {
					return false
				}
				p.To[at], p.Way[at], offset[at] = d, way, o
			}
		}
	}
	x.r.Plan, x.r.Offset = p, offset
	return pairs == len(x.number)*(len(x.number)-1)
}
