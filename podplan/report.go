package podplan

import (
	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/topology"
)

// Report is plan.json of a fat tree of three levels: as on two, with tops as spines, and more.
type Report struct {
	planner.Report
	Levels   int `json:"levels,omitempty"` // 3
	Pods     int `json:"pods,omitempty"`
	Planes   int `json:"planes,omitempty"`
	*Changes     // nil where the plan was made from no other one
}

// Report sums the plan up, with its plan for base LIDs.
func (r *Result) Report() Report {
	out := Report{Report: Figures(r), Levels: 3, Pods: r.Tree.Pods, Planes: r.Tree.Planes, Changes: r.changes}
	out.Load, out.PairsChanged = r.Load, r.pairsChanged
	if b := r.Base; b != nil {
		f := Figures(b)
		out.Base = &planner.BaseReport{Summary: f.Summary, Proof: f.Proof, Moved: b.moved, Warnings: planner.Codes(b.Warnings), PlanSeconds: f.PlanSeconds}
	}
	return out
}

// Figures sums a plan up as one of two levels, with tops as spines. The warnings are codes, the
// fabric's findings among them.
func Figures(r *Result) planner.Report {
	p, t := r.Plan, r.Tree
	lmc := 0
	for 1<<lmc < lids(t) {
		lmc++
	}
	groups := planner.GroupReports(&t.Common, p.To, func(alone topology.Common) int {
		tree := *t
		tree.Common = alone
		return pods.ComputeBounds(Shape(&tree)).LowerBound
	})
	return planner.Report{Version: 1, Summary: phasetable.Summarize(string(p.Engine), p.Phases(), p.LowerBound),
		Proof: phasetable.Proof{UnreachablePairs: len(p.Unreachable), Certificate: string(p.Certificate)},
		Size:  phasetable.Size{Servers: len(t.Servers), Leaves: len(t.Leaves), Spines: len(t.Tops), Lanes: len(t.Lanes), LMC: lmc},
		LIDs:  planner.LIDs(r.LIDs), UncoveredPairs: t.Uncovered.Pairs(len(t.Servers)), Group: p.Group, Blocks: p.Blocks, Groups: groups,
		Warnings: planner.Codes(r.Warnings, r.Notes, t.Findings), PlanSeconds: r.Times.Plan.Seconds(), TopologyHash: t.Fabric.Hash()}
}

// MostListed is how many servers a plan may have whose transfers are written out one by
// one.
const MostListed = 2048

// Table returns the plan under a number: with rows as far as these may be listed.
func (r *Result) Table(epoch uint64) *phasetable.Table {
	if len(r.Tree.Servers) > MostListed {
		return r.Compact(epoch)
	}
	return r.Rows(epoch)
}

// Rows returns the plan with a row for each phase. The lane of a transfer within a pod is
// that of its plane, counted on after the lanes.
func (r *Result) Rows(epoch uint64) *phasetable.Table {
	t, n := r.Tree, len(r.Tree.Servers)
	phases := r.Plan.Phases()
	out := &phasetable.Table{Epoch: epoch, TopologyHash: t.Fabric.Hash(), Phases: phases, Lanes: len(t.Lanes) + t.Planes,
		Servers: planner.Directory(t.Hosts, t.Servers), To: make([]int32, n*phases), Lane: make([]int16, n*phases), DLID: make([]ib.LID, n*phases)}
	row := r.NewRow()
	for p := range phases {
		row.Fill(p)
		copy(out.To[p*n:], row.To)
		copy(out.Lane[p*n:], row.Way)
		copy(out.DLID[p*n:], row.DLID)
		for s, d := range row.To {
			if d == pods.Idle {
				out.To[p*n+s] = phasetable.Idle
			}
		}
	}
	return out
}

// Compact returns the plan as it is: in blocks, or as a shift. It is what Rows is, and
// takes a small part of the room where groups are large.
func (r *Result) Compact(epoch uint64) *phasetable.Table {
	t, p := r.Tree, r.Plan
	out := &phasetable.Table{Epoch: epoch, TopologyHash: t.Fabric.Hash(), Lanes: len(t.Lanes) + t.Planes, Servers: planner.Directory(t.Hosts, t.Servers)}
	if p.Engine == pods.Shift {
		out.Shift = &phasetable.Shift{Places: p.Places}
		for s, i := range t.Servers {
			h := &t.Hosts[i]
			lane, inner := r.waysTo(h, 0)
			out.Shift.At = append(out.Shift.At, phasetable.Place{Place: uint32(p.Place[s]), Pod: uint32(t.Leaves[h.Leaf].Pod), Lane: lane, Inner: inner})
		}
		return out
	}
	b := &phasetable.Blocks{Group: p.Group, Blocks: p.Blocks, To: p.To, Lane: p.Way, DLID: make([]ib.LID, len(p.To))}
	for a := range len(p.First) - 1 {
		first := int(p.Base[a])
		for slot := p.First[a]; slot < p.First[a+1]; slot += int32(p.Group) {
			n := min(p.Group, int(p.Base[a+1])-first)
			b.Groups = append(b.Groups, phasetable.Members{First: first, Count: n})
			first += n
		}
	}
	for i, d := range p.To {
		if d != pods.Idle {
			b.DLID[i] = t.Hosts[t.Servers[d]].LID
			if p.Way[i] >= 0 && r.Offset != nil {
				b.DLID[i] += ib.LID(r.Offset[i])
			}
		}
	}
	out.Blocks = b
	return out
}

// WriteDir writes the files of a plan into dir, which it creates: those of
// planner.Result.WriteDir, base.csv and base.bin for base LIDs, and
// plan.json at last. Of more than MostListed servers there are no CSV files, and phases.bin
// is Compact.
func (r *Result) WriteDir(dir string) error {
	table, base := r.Table(0), (*phasetable.Table)(nil)
	if r.Base != nil && len(r.Tree.Servers) <= MostListed {
		base = r.Base.Table(0)
	}
	return planner.WriteFiles(dir, table, base, r.Tables, r.Tree.Fabric, r.Tree.Baseline.Encode(), r.Plan.Unreachable, r.Report())
}

// Unreachable lists the pairs of servers that have no way to each other, in order.
func Unreachable(t *topology.PodTree) [][2]int32 { return fors.Numbers(pods.Unreachable(Shape(t))) }
