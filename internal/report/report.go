// Package report makes a report of a fabric over a period: its cabling compared with the
// baseline and with the operator's intended topology, the availability of cables, the plans,
// and the time from a fault to a plan. The output is JSON, or an HTML page with pictures.
package report

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/topology"
)

// Report is the content of a report.
type Report struct {
	Made     time.Time   `json:"made_at"`
	Version  string      `json:"release"` // of forsd
	Period   Span        `json:"period"`  // the part of the requested period that the history covers
	Status   *api.Status `json:"status"`
	Baseline *Comparison `json:"baseline"`           // nil without a baseline
	Intended *Comparison `json:"intended,omitempty"` // nil without an intended topology
	Cables   []Available `json:"cables"`             // between switches, of the baseline, worst first
	Plans    []Plan      `json:"plans"`              // published in the period
	Faults   Percentiles `json:"fault_to_plan"`
	Matrix   *Matrix     `json:"-"`
	Findings []string    `json:"findings"` // differences between fabric and baseline, in words
}

// Plan is a published plan.
type Plan struct {
	api.Epoch
	Gap          int     `json:"gap"`                     // phases beyond the bound
	AfterSeconds float64 `json:"after_seconds,omitempty"` // since the first change of a cable that led to it was seen
	Fault        bool    `json:"fault"`                   // a cable or node went down
}

// Percentiles summarizes durations in seconds.
type Percentiles struct {
	Count  int     `json:"count"`
	Median float64 `json:"median_seconds"`
	P99    float64 `json:"p99_seconds"`
	Max    float64 `json:"max_seconds"`
}

// Matrix is the state of the cables between two levels of the tree.
type Matrix struct {
	Rows []Row
}

// Row lists a switch's upward cables: full, degraded, missing or none.
type Row struct {
	Name   string
	Cables []string
}

// Facts are the data for a report.
type Facts struct {
	Now      time.Time
	Period   Span // as requested
	First    time.Time
	Status   *api.Status
	Topology *api.Topology
	Cabling  *api.Cabling
	Baseline *topology.Baseline // may be nil
	Intended []Wanted           // may be nil
	Entries  []api.HistoryEntry // from the start of the period to now, oldest first
}

// Gather requests the data from a forsd.
func Gather(ctx context.Context, c *api.Client, period Span) (*Facts, error) {
	f := &Facts{Now: time.Now(), Period: period}
	var err error
	if f.Status, err = c.Status(ctx); err != nil {
		return nil, err
	}
	if f.Topology, err = c.Topology(ctx); err != nil {
		return nil, err
	}
	if f.Cabling, err = c.Cabling(ctx); err != nil {
		return nil, err
	}
	var raw json.RawMessage
	if err := c.Call(ctx, "GET", "/v1/baseline", nil, &raw); err != nil {
		return nil, err
	}
	if f.Baseline, err = topology.ReadBaseline(raw); err != nil {
		return nil, err
	}
	first, err := c.History(ctx, api.HistoryQuery{Oldest: true, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(first.Entries) > 0 {
		f.First = first.Entries[0].At
	}
	f.Entries, err = c.AllHistory(ctx, api.HistoryQuery{Kinds: []string{api.KindLink, api.KindEpoch, api.KindStart}, Since: period.From, Oldest: true}, 0)
	return f, err
}

// Make makes a report.
func Make(f *Facts) (*Report, error) {
	period := f.Period
	if f.First.After(period.From) && f.First.Before(f.Now) { // clocks can be set back
		period.From = f.First
	}
	if f.Now.Before(period.To) {
		period.To = f.Now
	}
	if !period.To.After(period.From) {
		return nil, fmt.Errorf("the history begins at %s, and the report is to end at %s: there is nothing in between", f.First.Format(time.RFC3339), period.To.Format(time.RFC3339))
	}
	r := &Report{Made: f.Now, Version: f.Status.Version, Period: period, Status: f.Status, Cables: []Available{}, Findings: []string{}}
	var err error
	if f.Baseline != nil {
		wanted := OfBaseline(f.Baseline)
		if r.Baseline, err = Compare(wanted, f.Cabling, false); err != nil {
			return nil, fmt.Errorf("the baseline: %w", err)
		}
		r.Cables = availability(wanted, f.Cabling, f.Entries, period, f.Now)
	}
	if f.Intended != nil {
		if r.Intended, err = Compare(f.Intended, f.Cabling, false); err != nil {
			return nil, err
		}
	}
	for _, x := range f.Topology.Findings {
		r.Findings = append(r.Findings, x.Text)
	}
	r.Plans = plans(f.Entries, period)
	r.Faults = percentiles(r.Plans)
	r.Matrix = matrixOf(f.Topology)
	return r, nil
}

// within is the longest time from a change to the plan that results from it. A longer time has
// another cause, such as a cable that was held back.
const within = 10 * time.Second

// plans returns the plans of a period, each with the time since the change that caused it.
func plans(entries []api.HistoryEntry, p Span) []Plan {
	out := []Plan{}
	var since time.Time // time of the first change since the last plan
	fault := false
	for i := range entries {
		e := &entries[i]
		switch e.Kind {
		case api.KindStart:
			since, fault = time.Time{}, false
		case api.KindLink:
			var c topology.Change
			if json.Unmarshal(e.Data, &c) != nil {
				continue
			}
			if since.IsZero() || e.At.Sub(since) > within {
				since, fault = e.At, false
			}
			fault = fault || c.Kind == topology.ChangeCableDown || c.Kind == topology.ChangeNodeGone
		case api.KindEpoch:
			x := Plan{}
			if json.Unmarshal(e.Data, &x.Epoch) != nil || e.At.After(p.To) {
				continue
			}
			x.Gap = x.Phases - x.LowerBound
			if after := e.At.Sub(since); !since.IsZero() && after <= within {
				x.AfterSeconds, x.Fault = after.Seconds(), fault
			}
			since, fault = time.Time{}, false
			out = append(out, x)
		}
	}
	return out
}

// percentiles summarizes the times of plans after faults.
func percentiles(all []Plan) (out Percentiles) {
	var times []float64
	for i := range all {
		if all[i].Fault {
			times = append(times, all[i].AfterSeconds)
		}
	}
	slices.Sort(times)
	if out.Count = len(times); out.Count > 0 {
		out.Median, out.P99, out.Max = times[(out.Count-1)/2], times[(out.Count*99+99)/100-1], times[out.Count-1]
	}
	return out
}
