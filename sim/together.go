package sim

import (
	"errors"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Together is what several exchanges cost that run side by side, each in its phase
// p in step p.
type Together struct {
	// Result counts the transfers of all of them. Its RelativeThroughput is
	// (P−1) / Σ PerPhaseMax with the P of the exchange that has most servers: 1 where
	// all take no longer than the largest would without the others.
	Result
	Schedules []Share `json:"schedules"` // in the order given
}

// Share is one of several exchanges.
type Share struct {
	Name     string  `json:"schedule"`
	Alone    *Result `json:"alone"`    // its cost without the others
	Together Delays  `json:"together"` // its cost with them
}

// Delays is how long the phases of an exchange take together with others.
type Delays struct {
	// PerPhaseMax is, [phase], the largest number of transfers of any exchange on a link
	// that a transfer of this exchange takes.
	PerPhaseMax        []int   `json:"per_phase_max"`
	Mean               float64 `json:"mean"`
	Max                int     `json:"max"`
	ConflictShare      float64 `json:"conflict_share"`
	RelativeThroughput float64 `json:"relative_throughput"` // as of Alone
}

// RunTogether simulates several schedules side by side on fabric f with the given
// tables, and each alone; names[i] calls schedules[i]. It fails as Run does.
func RunTogether(f *topology.Fabric, tables *lft.Tables, names []string, schedules [][]Row) (*Together, error) {
	if len(names) != len(schedules) {
		return nil, errors.New("simulate: each schedule needs one name")
	}
	out := &Together{Schedules: make([]Share, len(schedules))}
	r := newRunner(f, tables)
	sorted := make([][]transfer, len(schedules))
	phases, total := 0, 0
	for i, rows := range schedules {
		alone, err := Run(f, tables, rows)
		if err != nil {
			return nil, err
		}
		if sorted[i], _, err = r.resolve(rows); err != nil {
			return nil, err
		}
		out.Schedules[i] = Share{Name: names[i], Alone: alone, Together: Delays{PerPhaseMax: make([]int, alone.Phases)}}
		phases, total = max(phases, alone.Phases), total+len(rows)
	}
	r.result.Transfers, r.result.Phases, r.result.PerPhaseMax = total, phases, make([]int, phases)
	ends := make([]int, len(schedules)) // [schedule] where its links end in the path
	for phase := range phases {
		for i := range sorted {
			n := 0
			for n < len(sorted[i]) && sorted[i][n].phase == int32(phase) {
				n++
			}
			r.addLoad(sorted[i][:n])
			sorted[i], ends[i] = sorted[i][n:], len(r.path)
		}
		r.measure(phase)
		from := 0
		for i, end := range ends {
			if d := &out.Schedules[i].Together; phase < len(d.PerPhaseMax) {
				d.PerPhaseMax[phase] = r.heaviest(r.path[from:end])
			}
			from = end
		}
		r.unload()
	}
	r.summarise()
	out.Result = r.result
	largest := 0
	for i := range out.Schedules {
		s := &out.Schedules[i]
		s.summarise()
		largest = max(largest, s.Alone.Most)
	}
	if out.Most > 0 {
		out.RelativeThroughput *= float64(largest) / float64(out.Most)
	}
	return out, nil
}

// heaviest is the largest load of some links.
func (r *runner) heaviest(links []int32) int {
	most := int32(0)
	for _, l := range links {
		most = max(most, r.load[l])
	}
	return int(most)
}

// summarise fills in the figures of an exchange together with others, as Run does alone.
func (s *Share) summarise() {
	d := &s.Together
	as := runner{result: Result{Most: s.Alone.Most, PerPhaseMax: d.PerPhaseMax}}
	as.summarise()
	d.Mean, d.ConflictShare, d.RelativeThroughput = as.result.Mean, as.result.ConflictShare, as.result.RelativeThroughput
	for _, m := range d.PerPhaseMax {
		d.Max = max(d.Max, m)
	}
}
