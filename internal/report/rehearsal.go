package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/health"
)

// Rehearsal reports how forsd has worked on the simulation of a fabric, before it is installed there.
type Rehearsal struct {
	File       string    `json:"file"`
	Version    string    `json:"release"`
	Kind       string    `json:"fabric_kind"`
	Leaves     int       `json:"leaves"`
	Servers    int       `json:"servers"`
	Lanes      int       `json:"lanes"`
	LMC        int       `json:"lmc"`
	Seed       uint64    `json:"seed"`
	Asked      int       `json:"events_asked"`
	Phases     int       `json:"phases"` // before all events
	LowerBound int       `json:"lower_bound"`
	Seconds    float64   `json:"seconds"`
	Events     []Played  `json:"events"` // up to the first violation
	Warnings   []Warned  `json:"warnings"`
	Programs   []Used    `json:"programs"`
	Settings   *Settings `json:"settings,omitempty"` // nil without an opensm.conf
}

// Played is an event of a rehearsal.
type Played struct {
	Number       int      `json:"number"`
	Change       string   `json:"change"`
	Where        []string `json:"where,omitempty"`
	With         string   `json:"with,omitempty"` // what happened to forsd or OpenSM at the same time
	PhasesBefore int      `json:"phases_before"`
	PhasesAfter  int      `json:"phases_after"` // 0 after a violation
	Plans        int      `json:"plans"`
	PlanSeconds  float64  `json:"plan_seconds"` // until a reader had the first plan; 0 without one
	RestSeconds  float64  `json:"rest_seconds"` // until forsd was at rest: tables read back, and the plan for them in force
	Warnings     []string `json:"warnings"`     // codes of those that came
	Violation    string   `json:"violation,omitempty"`
}

// Warned is a kind of warning.
type Warned struct {
	Code     string          `json:"code"`
	Severity health.Severity `json:"severity"`
	Title    string          `json:"title"`
	Events   int             `json:"events"` // in which it came
}

// Used is the usage of a program, on both managers.
type Used struct {
	Program    string  `json:"program"`
	PeakMiB    float64 `json:"peak_mib"` // of one process
	CPUSeconds float64 `json:"cpu_seconds"`
}

// Settings are the settings of an opensm.conf that stand in forsd's way.
type Settings struct {
	File     string    `json:"file"`
	Findings []Finding `json:"findings"`
	Misread  []string  `json:"misread,omitempty"` // values that OpenSM takes otherwise than they were probably meant
}

// Finding is a setting that stands in forsd's way.
type Finding struct {
	health.Warning
	Mended bool `json:"mended"` // forsctl setup changes it
}

// What describes the finding.
func (f *Finding) What() string {
	if f.Mended {
		return f.Title + ": forsctl setup changes it"
	}
	return f.Title + ": " + f.Text
}

// What names the event.
func (p *Played) What() string {
	words := append([]string{p.Change}, p.Where...)
	if p.With != "" {
		words = append(words, "with", p.With)
	}
	return strings.Join(words, " ")
}

// PlanTime is how long the first plan took.
func (p *Played) PlanTime() string {
	if p.Plans == 0 {
		return "no new plan"
	}
	return command.Seconds(p.PlanSeconds)
}

// Line is the event in a line.
func (p *Played) Line() string {
	if p.Violation != "" {
		return p.What() + ": " + p.Violation
	}
	return fmt.Sprintf("%s: %d to %d phases, %s, at rest %s", p.What(), p.PhasesBefore, p.PhasesAfter, p.PlanTime(), command.Seconds(p.RestSeconds))
}

// Violation is the first violation, "" if there was none.
func (r *Rehearsal) Violation() string {
	if n := len(r.Events); n > 0 && r.Events[n-1].Violation != "" {
		return fmt.Sprintf("event %d, %s: %s", n, r.Events[n-1].What(), r.Events[n-1].Violation)
	}
	return ""
}

// PlanTimes are the times to the first plan after events of a kind.
type PlanTimes struct {
	What string
	Percentiles
}

// Times are the times to the first plan after failures, and after returns.
func (r *Rehearsal) Times() (out []PlanTimes) {
	kinds := []struct {
		what    string
		changes []string
	}{{"failures", []string{"pull", "host-pull", "switch-off"}}, {"returns", []string{"plug", "switch-on"}}}
	for _, k := range kinds {
		var plans []Plan
		for i := range r.Events {
			if p := &r.Events[i]; p.Plans > 0 && p.With == "" && slices.Contains(k.changes, p.Change) {
				plans = append(plans, Plan{AfterSeconds: p.PlanSeconds, Fault: true})
			}
		}
		if len(plans) > 0 {
			out = append(out, PlanTimes{k.what, percentiles(plans)})
		}
	}
	return out
}

//go:embed rehearsal.html
var rehearsalText string

var rehearsal = template.Must(template.Must(page.Clone()).Funcs(template.FuncMap{"seconds": command.Seconds}).New("rehearsal").Parse(rehearsalText))

// WriteHTML writes the report as a single page that loads no other resources.
func (r *Rehearsal) WriteHTML(out io.Writer) error { return rehearsal.Execute(out, r) }
