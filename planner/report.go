package planner

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// Report is the content of plan.json: a plan in figures.
type Report struct {
	Version int `json:"version"`
	phasetable.Summary
	phasetable.Size
	LIDs               LIDs `json:"lids"` // LIDs of each server that the plan uses: a number, or "lanes"
	BandwidthReduction int  `json:"bandwidth_reduction"`
	AffectedSpines     int  `json:"affected_spines"`
	phasetable.Proof
	// UncoveredPairs are those of hosts outside the tree, in addition to UnreachablePairs.
	UncoveredPairs int `json:"uncovered_pairs"`
	// On three levels, the number of senders of a leaf that share paths, in blocks of as
	// many phases.
	Group           int      `json:"group,omitempty"`
	Blocks          int      `json:"blocks,omitempty"`
	phasetable.Load          // of the tables, independent of the plan
	Warnings        []string `json:"warnings"`
	PlanSeconds     float64  `json:"plan_seconds"`
	TopologyHash    string   `json:"topology_hash"`
	// PairsChanged counts the ordered pairs of servers whose destination LID differs from
	// the plan that this one was made from; nil if there was none.
	PairsChanged *int `json:"pairs_changed,omitempty"`
	// Groups are the exchanges that are planned together, empty for one of all servers.
	Groups []GroupReport `json:"groups,omitempty"`
	// Base is the plan for base LIDs next to this one, nil if there is none or it is
	// unknown.
	Base *BaseReport `json:"base,omitempty"`
}

// BaseReport is a plan for base LIDs in figures.
type BaseReport struct {
	phasetable.Summary
	phasetable.Proof
	// Kept is the most transfers that kept lanes put on a cable, a lower bound on the
	// phases; its excess over the bound is the price of keeping lanes.
	Kept int `json:"kept,omitempty"`
	// Moved counts the leaves' entries for base LIDs that differ from the lane on an
	// undamaged fabric.
	Moved       int      `json:"moved"`
	Warnings    []string `json:"warnings"`
	PlanSeconds float64  `json:"plan_seconds"`
}

// Report summarizes the plan and its plan for base LIDs.
func (r *Result) Report() Report {
	report := r.Schedule.Report()
	report.Warnings = Codes(r.Warnings, r.Tree.Findings, r.Notes)
	report.Load, report.Base, report.PairsChanged = r.Load, r.Base.baseReport(), r.changed
	return report
}

// Codes lists the codes of warnings, ascending, each once.
func Codes(warnings ...[]Warning) []string {
	codes := []string{}
	for _, w := range slices.Concat(warnings...) {
		codes = append(codes, w.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// baseReport summarizes a plan for base LIDs, nil if s is nil.
func (s *Schedule) baseReport() *BaseReport {
	if s == nil {
		return nil
	}
	b := &BaseReport{Summary: phasetable.Summarize(string(s.Plan.Engine), s.Plan.Phases, s.least),
		Proof: phasetable.Proof{UnreachablePairs: len(s.Plan.Unreachable), Certificate: string(s.by)}, Kept: s.kept, Warnings: Codes(s.Warnings), PlanSeconds: s.Took.Seconds()}
	if s.pins != nil {
		for i := 0; i < len(s.pins.Lane); i += s.pins.LIDs {
			h := &s.Tree.Hosts[s.Tree.Servers[i/s.pins.LIDs%len(s.Tree.Servers)]]
			if k := s.pins.Lane[i]; k >= 0 && int(k) != s.Tree.LIDLane(h, 0) {
				b.Moved++
			}
		}
	}
	return b
}

// Report summarizes the schedule. The warnings are codes, including the fabric's findings,
// without duplicates, ascending.
func (s *Schedule) Report() Report {
	p, t := s.Plan, s.Tree
	lmc := 0
	for _, i := range t.Servers {
		lmc = max(lmc, int(t.Hosts[i].LMC))
	}
	leaves, spines := present(t)
	summary, proof := Summary(p)
	return Report{Version: 1, Summary: summary, Size: phasetable.Size{Servers: p.Servers, Leaves: leaves, Spines: spines, Lanes: t.Lanes, LMC: lmc}, LIDs: s.LIDs,
		BandwidthReduction: p.Reduction, AffectedSpines: affectedSpines(t), Proof: proof, UncoveredPairs: t.Uncovered.Pairs(p.Servers),
		Groups: s.groupReports(), Warnings: Codes(s.Warnings, t.Findings), PlanSeconds: s.Took.Seconds(), TopologyHash: t.Fabric.Hash()}
}

// Summary returns a plan in figures.
func Summary(p *fors.Plan) (phasetable.Summary, phasetable.Proof) {
	return phasetable.Summarize(string(p.Engine), p.Phases, p.LowerBound), phasetable.Proof{UnreachablePairs: len(p.Unreachable), Certificate: string(p.Certificate)}
}

// present counts the leaves and spines that are present.
func present(t *topology.FatTree) (leaves, spines int) {
	for i := range t.Leaves {
		if t.Leaves[i].Node != topology.None {
			leaves++
		}
	}
	for i := range t.Spines {
		if t.Spines[i].Node != topology.None {
			spines++
		}
	}
	return leaves, spines
}

// affectedSpines returns m: the number of spines with a lane that is not up at some leaf
// with servers.
func affectedSpines(t *topology.FatTree) int {
	hit := make([]bool, len(t.Spines))
	for _, i := range t.Servers {
		for k, s := range t.LaneOf {
			if !t.LaneUp(t.Hosts[i].Leaf, k) {
				hit[s] = true
			}
		}
	}
	m := 0
	for _, h := range hit {
		if h {
			m++
		}
	}
	return m
}

// Table returns the schedule as the phase table that ranks read.
func (s *Schedule) Table(epoch uint64) *phasetable.Table {
	t := s.Tree
	return &phasetable.Table{Epoch: epoch, TopologyHash: t.Fabric.Hash(), Phases: s.Rows.Phases, Lanes: t.Lanes, Servers: Directory(t.Hosts, t.Servers),
		To: s.Rows.To, Lane: s.Rows.Lane, DLID: s.Rows.DLID, OwnCables: !slices.ContainsFunc(t.Spines, func(s topology.Spine) bool { return s.Cables > 1 })}
}

// The files that WriteDir writes.
const (
	ReportFile      = "plan.json"
	PhasesFile      = "phases.csv"
	TablesFile      = "lfts.dump"
	BinaryFile      = "phases.bin"
	UnreachableFile = "unreachable.csv"
	BaseFile        = "base.csv"
	BaseBinaryFile  = "base.bin"
	BaselineFile    = "baseline.json"
)

// WriteDir creates dir and writes phases.csv, phases.bin, unreachable.csv, lfts.dump,
// baseline.json, base.csv and base.bin if there is a base plan, and, last, plan.json.
func (r *Result) WriteDir(dir string) error {
	var base *phasetable.Table
	if r.Base != nil {
		base = r.Base.Table(0)
	}
	return WriteFiles(dir, r.Table(0), base, r.Tables, r.Tree.Fabric, r.Tree.Baseline.Encode(), r.Plan.Unreachable, r.Report())
}

// WriteFiles writes the files of WriteDir for any plan. A nil base plan has no files, and a
// plan without rows has no CSV file.
func WriteFiles(dir string, plan, base *phasetable.Table, tables *lft.Tables, f *topology.Fabric, baseline []byte, unreachable []fors.Pair, report any) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := tableFiles(plan, PhasesFile, BinaryFile)
	if err != nil {
		return err
	}
	if base != nil {
		more, err := tableFiles(base, BaseFile, BaseBinaryFile)
		if err != nil {
			return err
		}
		files = append(files, more...)
	}
	var dump, cut bytes.Buffer
	if err := tables.Write(&dump, lft.OwnersOf(f)); err != nil {
		return err
	}
	cut.WriteString("src_guid,dst_guid\n")
	for _, p := range unreachable {
		fmt.Fprintf(&cut, "%s,%s\n", plan.Servers[p.Src].GUID, plan.Servers[p.Dst].GUID)
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	files = append(files, file{UnreachableFile, cut.Bytes()}, file{TablesFile, dump.Bytes()}, file{BaselineFile, baseline}, file{ReportFile, append(text, '\n')})
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// file is a file to write.
type file struct {
	name string
	data []byte
}

// tableFiles returns a phase table as CSV, if it has rows, and in binary form. Programs
// detect another table by its number, which is therefore a hash of the content: the same
// plan gives the same bytes.
func tableFiles(table *phasetable.Table, csv, bin string) ([]file, error) {
	data, err := phasetable.Encode(table)
	if err == nil && table.Epoch == 0 {
		sum := sha256.Sum256(data)
		numbered := *table
		numbered.Epoch = max(1, binary.LittleEndian.Uint64(sum[:])>>16) // exact as a JSON number
		table = &numbered
		data, err = phasetable.Encode(table)
	}
	if err != nil || table.Blocks != nil || table.Shift != nil {
		return []file{{bin, data}}, err
	}
	var text bytes.Buffer
	if err := phasetable.WriteCSV(&text, table); err != nil {
		return nil, err
	}
	return []file{{csv, text.Bytes()}, {bin, data}}, nil
}

// Directory lists servers, which are hosts by their indices, as phase tables have them.
func Directory(hosts []topology.Host, servers []int) []phasetable.ServerEntry {
	out := make([]phasetable.ServerEntry, len(servers))
	for s, i := range servers {
		h := &hosts[i]
		out[s] = phasetable.ServerEntry{GUID: h.GUID, LID: h.LID, LMC: h.LMC, Leaf: h.Leaf, Name: h.Name}
	}
	return out
}
