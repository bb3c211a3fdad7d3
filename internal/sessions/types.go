package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/optical/ocs"
)

// Session has the fields common to all sessions: a sequence of plans.
type Session struct {
	ID      uint64    `json:"id"`
	Name    string    `json:"name"`
	Opened  time.Time `json:"opened_at"`
	Asked   time.Time `json:"asked_at"` // the time of the last request
	Planned uint64    `json:"planned"`  // number of frames
	Refused uint64    `json:"refused"`
}

// Frame has the fields common to all frames.
type Frame struct {
	Number          uint64    `json:"number"` // from 1
	At              time.Time `json:"planned_at"`
	PlanningSeconds float64   `json:"planning_seconds"` // including the wait for a turn
}

// GPUSession is a sequence of exchanges of a GPU cluster.
type GPUSession struct {
	Session
	GPUs          int `json:"gpus"`            // total
	GPUsPerServer int `json:"gpus_per_server"` // 0 if the sites give the number of each server
	GPUFailures
	Frames []GPUFrame `json:"frames,omitempty"` // the latest frames, in the answer for a single session
}

// GPUFrame is a planned frame.
type GPUFrame struct {
	Frame
	Mode             string  `json:"mode"`
	Length           int64   `json:"length"` // bytes per NIC
	Bound            int64   `json:"bound"`
	PredictedSeconds float64 `json:"predicted_seconds"`
	GPUFailures
}

// GPUFailures is the complete list of a cluster's failures; it replaces the previous one.
type GPUFailures struct {
	BadNICs  []string `json:"bad_nics"` // same format as --bad-nic of forsplan gpu schedule
	DeadGPUs []string `json:"dead_gpus"`
}

// OCSSession is a sequence of matrices for optical circuit switches, one for each period.
type OCSSession struct {
	Session
	Racks    int     `json:"racks"`
	Switches int     `json:"switches"`
	Delta    float64 `json:"delta"`
	Period   float64 `json:"period"`
	ocs.Damage
	Periods []OCSPeriod `json:"periods,omitempty"` // the latest periods, in the answer for a single session
}

// OCSPeriod is a planned period.
type OCSPeriod struct {
	Frame
	PeriodFigures
	ocs.Damage
}

// PeriodFigures are the figures of a planned period.
type PeriodFigures struct {
	Makespan       float64 `json:"makespan"`
	LowerBound     float64 `json:"lower_bound"`
	Late           float64 `json:"late"`
	Backlog        float64 `json:"backlog"`
	Fresh          bool    `json:"fresh"` // does not start from the period before
	Kept           int     `json:"kept"`
	Configurations int     `json:"configurations"`
}

// ofGPUs returns the kind for GPU exchanges.
func ofGPUs(plan func(context.Context, []byte, *[]byte) (*gpuPlan, error)) kind[GPUSession, GPUFrame, GPUFailures, gpuPlan] {
	return kind[GPUSession, GPUFrame, GPUFailures, gpuPlan]{
		path: "/v1/gpu/sessions", plan: plan, header: "Forsplan-Frame", name: "GPU session", frame: "frame",
		ofFrame: []string{"traffic", "routing", "token_bytes", "return", "programs", "rank"}, ofFailures: []string{"bad_nics", "dead_gpus"}, body: gpuBody,
		session: func(s *GPUSession) (*Session, *GPUFailures, *[]GPUFrame) {
			return &s.Session, &s.GPUFailures, &s.Frames
		},
		of:      func(f *GPUFrame) (*Frame, *GPUFailures) { return &f.Frame, &f.GPUFailures },
		open:    openGPUs,
		nothing: func(s *GPUSession) (string, int) { return "traffic", s.GPUs },
		figures: func(f *GPUFrame, a *gpuPlan) {
			f.Mode, f.Length, f.Bound, f.PredictedSeconds = string(a.Mode), a.Length, a.Bound, a.PredictedSeconds
			f.BadNICs = append(slices.Clone(f.BadNICs), a.down...)
		},
		tidy: func(x *GPUFailures) {
			x.BadNICs, x.DeadGPUs = append([]string{}, x.BadNICs...), append([]string{}, x.DeadGPUs...)
		},
		failed: func(x *GPUFailures) string {
			return failed("all NICs and GPUs", words("bad NICs", x.BadNICs), words("dead GPUs", x.DeadGPUs))
		},
		result: func(f *GPUFrame) string {
			return fmt.Sprintf("sends %d bytes a NIC in %.3g ms", f.Length, 1000*f.PredictedSeconds)
		},
	}
}

func openGPUs(settings map[string]json.RawMessage, text []byte) (s GPUSession, about string, err error) {
	var q struct {
		Servers int `json:"servers"`
		GPUs    int `json:"gpus_per_server"`
		GPUFailures
		Site *struct {
			Servers []struct {
				GPUs int `json:"gpus"`
			} `json:"servers"`
		} `json:"site"`
	}
	if err := json.Unmarshal(text, &q); err != nil {
		return s, "", api.BadRequest("%v", err)
	}
	ranks := q.Servers * q.GPUs
	if q.Site != nil {
		ranks = 0
		for _, s := range q.Site.Servers {
			ranks += s.GPUs
		}
	}
	if q.Site == nil && (q.Servers < 1 || q.GPUs < 1 || q.Servers > gpuRanks || q.GPUs > gpuRanks) || ranks < 1 || ranks > gpuRanks {
		return s, "", api.BadRequest(`want {"servers": 8, "gpus_per_server": 8}, or a site, with %d GPUs at most`, gpuRanks)
	}
	delete(settings, "servers")
	return GPUSession{GPUs: ranks, GPUsPerServer: q.GPUs, GPUFailures: q.GPUFailures}, fmt.Sprintf("of %d GPUs", ranks), nil
}

// ofOCS returns the kind for optical circuit switches.
func ofOCS(plan func(context.Context, []byte, *[]byte) (*PeriodReport, error)) kind[OCSSession, OCSPeriod, ocs.Damage, PeriodReport] {
	return kind[OCSSession, OCSPeriod, ocs.Damage, PeriodReport]{
		path: "/v1/optical/ocs/sessions", plan: plan, header: "Forsplan-Period", name: "OCS session", frame: "period",
		ofFrame: []string{"demand"}, ofFailures: []string{"dead_switches", "dead_ports"}, body: ocsBody, follows: true,
		session: func(s *OCSSession) (*Session, *ocs.Damage, *[]OCSPeriod) {
			return &s.Session, &s.Damage, &s.Periods
		},
		of:      func(f *OCSPeriod) (*Frame, *ocs.Damage) { return &f.Frame, &f.Damage },
		open:    openOCS,
		nothing: func(s *OCSSession) (string, int) { return "demand", s.Racks },
		figures: func(f *OCSPeriod, a *PeriodReport) { f.PeriodFigures = a.Figures() },
		tidy:    func(*ocs.Damage) {}, // JSON omits empty lists
		failed: func(x *ocs.Damage) string {
			return failed("all switches and ports", words("dead ports", x.DeadPorts), words("dead switches", x.DeadSwitches))
		},
		result: func(f *OCSPeriod) string {
			return fmt.Sprintf("takes %.6g, %d configurations kept", f.Makespan, f.Kept)
		},
	}
}

func openOCS(_ map[string]json.RawMessage, text []byte) (s OCSSession, about string, err error) {
	if err := json.Unmarshal(text, &s); err != nil {
		return s, "", api.BadRequest("%v", err)
	}
	if s.Racks < 1 || s.Racks > ocsRacks {
		return s, "", api.BadRequest(`want {"racks": 100, "switches": 4, "delta": 0.01, "period": 0.4}, with %d racks at most`, ocsRacks)
	}
	s = OCSSession{Racks: s.Racks, Switches: s.Switches, Delta: s.Delta, Period: s.Period, Damage: s.Damage}
	return s, fmt.Sprintf("of %d switches and %d racks", s.Switches, s.Racks), nil
}

// words lists parts in words, or returns "".
func words[T any](what string, parts []T) string {
	switch {
	case len(parts) == 0:
		return ""
	case len(parts) > 8:
		return fmt.Sprintf("%d %s", len(parts), what)
	}
	names := make([]string, len(parts))
	for i, x := range parts {
		names[i] = fmt.Sprint(x)
	}
	return what + " " + strings.Join(names, ", ")
}

// failed describes failures in words, or returns well if there are none.
func failed(well string, parts ...string) string {
	parts = slices.DeleteFunc(parts, func(x string) bool { return x == "" })
	if len(parts) == 0 {
		return well
	}
	return strings.Join(parts, " and ")
}
