package ocs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Report is the form of a schedule in files, the API and "--json".
type Report struct {
	Version        int      `json:"version"` // 1
	Method         Method   `json:"method,omitempty"`
	Racks          int      `json:"racks"`
	Delta          float64  `json:"delta"`
	Makespan       float64  `json:"makespan"`
	LowerBound     float64  `json:"lower_bound"` // Bounds.Sharp
	PaperBound     float64  `json:"paper_bound"` // Bounds.Paper
	Degree         int      `json:"degree"`      // fewest permutations that cover the demand
	Configurations int      `json:"configurations"`
	Switches       []Switch `json:"switches"`
	Damage                  // dead switches and ports

	Standing [][]int32 `json:"standing,omitempty"` // in periods: the permutations held before
}

// NewReport replays a schedule and reports it. It fails if the replay does.
func NewReport(d *Demand, s *Schedule, m Method) (*Report, error) {
	if err := Replay(d, s); err != nil {
		return nil, fmt.Errorf("the schedule of method %s does not hold: %w", m, err)
	}
	b := s.Damage.Bound(d, len(s.Switches), s.Delta)
	return &Report{Version: 1, Method: m, Racks: s.Racks, Delta: s.Delta, Makespan: s.Makespan(), LowerBound: b.Sharp, PaperBound: b.Paper,
		Degree: d.Degree(), Configurations: s.Configurations(), Switches: s.Switches, Damage: s.Damage, Standing: s.Standing}, nil
}

// Schedule returns the reported schedule.
func (r *Report) Schedule() *Schedule {
	return &Schedule{Racks: r.Racks, Delta: r.Delta, Switches: r.Switches, Damage: r.Damage, Standing: r.Standing}
}

// ReadReport reads a report. Check and Replay check its schedule.
func ReadReport(data []byte) (*Report, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var r struct {
		Report
		Schema string `json:"schema"` // of an output of --json
	}
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("read a schedule: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read a schedule: something follows its end")
	}
	if r.Version != 1 {
		return nil, fmt.Errorf("read a schedule: its version is %d, want 1", r.Version)
	}
	if r.Racks < 1 || r.Racks > MaxRacks || len(r.Switches) < 1 || len(r.Switches) > MaxSwitches {
		return nil, fmt.Errorf("read a schedule: it has %d racks and %d switches, want 1 to %d and 1 to %d", r.Racks, len(r.Switches), MaxRacks, MaxSwitches)
	}
	if !(r.Delta >= 0) || math.IsInf(r.Delta, 0) {
		return nil, fmt.Errorf("read a schedule: delta is %v, want zero or more", r.Delta)
	}
	return &r.Report, nil
}

// Check replays the schedule without a demand: its configurations must be
// permutations, in the order of time.
func (r *Report) Check() error {
	nothing := &Demand{n: r.Racks, start: make([]int32, r.Racks+1)}
	return Replay(nothing, r.Schedule())
}
