package frames

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/tiers"
	"github.com/forsd/forsd/optical/ocs"
)

// GPUs are the sessions of GPU exchanges.
type GPUs = Room[api.GPUSession, api.GPUFrame, api.GPUFailures]

// OCS are the sessions of optical circuit switches.
type OCS = Room[api.OCSSession, api.OCSPeriod, ocs.Damage]

// OfGPUs are sessions of GPU exchanges.
func OfGPUs() Sort[api.GPUSession, api.GPUFrame, api.GPUFailures] {
	return Sort[api.GPUSession, api.GPUFrame, api.GPUFailures]{
		path: "/v1/gpu/sessions", planner: tiers.GPU, header: "Forsd-Frame", name: "GPU session", frame: "frame",
		ofFrame: []string{"traffic", "routing", "token_bytes", "return", "programs", "rank"}, ofFailures: []string{"bad_nics", "dead_gpus"}, body: tiers.GPUBody,
		session: func(s *api.GPUSession) (*api.Session, *api.GPUFailures, *[]api.GPUFrame) {
			return &s.Session, &s.GPUFailures, &s.Frames
		},
		of:      func(f *api.GPUFrame) (*api.Frame, *api.GPUFailures) { return &f.Frame, &f.GPUFailures },
		open:    openGPUs,
		nothing: func(s *api.GPUSession) (string, int) { return "traffic", s.GPUs },
		figures: func(f *api.GPUFrame) map[string]any {
			return map[string]any{"mode": &f.Mode, "length": &f.Length, "bound": &f.Bound, "predicted_seconds": &f.PredictedSeconds}
		},
		tidy: func(x *api.GPUFailures) {
			x.BadNICs, x.DeadGPUs = append([]string{}, x.BadNICs...), append([]string{}, x.DeadGPUs...)
		},
		failed: func(x *api.GPUFailures) string {
			return failed("all NICs and GPUs", words("bad NICs", x.BadNICs), words("dead GPUs", x.DeadGPUs))
		},
		result: func(f *api.GPUFrame) string {
			return fmt.Sprintf("sends %d bytes a NIC in %.3g ms", f.Length, 1000*f.PredictedSeconds)
		},
	}
}

func openGPUs(settings map[string]json.RawMessage, text []byte) (s api.GPUSession, about string, err error) {
	var q struct {
		Servers int `json:"servers"`
		GPUs    int `json:"gpus_per_server"`
		api.GPUFailures
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
	const mostRanks = 1024
	if q.Site == nil && (q.Servers < 1 || q.GPUs < 1 || q.Servers > mostRanks || q.GPUs > mostRanks) || ranks < 1 || ranks > mostRanks {
		return s, "", api.BadRequest(`want {"servers": 8, "gpus_per_server": 8}, or a site, with %d GPUs at most`, mostRanks)
	}
	delete(settings, "servers")
	return api.GPUSession{GPUs: ranks, GPUsPerServer: q.GPUs, GPUFailures: q.GPUFailures}, fmt.Sprintf("of %d GPUs", ranks), nil
}

// OfOCS are sessions of optical circuit switches.
func OfOCS() Sort[api.OCSSession, api.OCSPeriod, ocs.Damage] {
	return Sort[api.OCSSession, api.OCSPeriod, ocs.Damage]{
		path: "/v1/optical/ocs/sessions", planner: tiers.OCSPeriod, header: "Forsd-Period", name: "OCS session", frame: "period",
		ofFrame: []string{"demand"}, ofFailures: []string{"dead_switches", "dead_ports"}, body: 30 * mostRacks * mostRacks, follows: true,
		session: func(s *api.OCSSession) (*api.Session, *ocs.Damage, *[]api.OCSPeriod) {
			return &s.Session, &s.Damage, &s.Periods
		},
		of:      func(f *api.OCSPeriod) (*api.Frame, *ocs.Damage) { return &f.Frame, &f.Damage },
		open:    openOCS,
		nothing: func(s *api.OCSSession) (string, int) { return "demand", s.Racks },
		figures: func(f *api.OCSPeriod) map[string]any {
			return map[string]any{"makespan": &f.Makespan, "lower_bound": &f.LowerBound, "late": &f.Late, "backlog": &f.Backlog,
				"fresh": &f.Fresh, "kept": &f.Kept, "configurations": &f.Configurations}
		},
		tidy: func(*ocs.Damage) {}, // left out where they are empty
		failed: func(x *ocs.Damage) string {
			return failed("all switches and ports", words("dead ports", x.DeadPorts), words("dead switches", x.DeadSwitches))
		},
		result: func(f *api.OCSPeriod) string {
			return fmt.Sprintf("takes %.6g, %d configurations kept", f.Makespan, f.Kept)
		},
	}
}

// mostRacks keeps what is remembered of a period, over all sessions, below 100 MB.
const mostRacks = 512

func openOCS(_ map[string]json.RawMessage, text []byte) (s api.OCSSession, about string, err error) {
	if err := json.Unmarshal(text, &s); err != nil {
		return s, "", api.BadRequest("%v", err)
	}
	if s.Racks < 1 || s.Racks > mostRacks {
		return s, "", api.BadRequest(`want {"racks": 100, "switches": 4, "delta": 0.01, "period": 0.4}, with %d racks at most`, mostRacks)
	}
	s = api.OCSSession{Racks: s.Racks, Switches: s.Switches, Delta: s.Delta, Period: s.Period, Damage: s.Damage}
	return s, fmt.Sprintf("of %d switches and %d racks", s.Switches, s.Racks), nil
}

// words are some parts in words, "" for none.
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

// failed says in words what has failed, and well where nothing has.
func failed(well string, parts ...string) string {
	parts = slices.DeleteFunc(parts, func(x string) bool { return x == "" })
	if len(parts) == 0 {
		return well
	}
	return strings.Join(parts, " and ")
}
