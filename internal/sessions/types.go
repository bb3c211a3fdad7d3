package sessions

import (
	"time"

	"github.com/forsd/forsd/optical/ocs"
)

// Session is what all sessions have: plans that are made one after the other.
type Session struct {
	ID      uint64    `json:"id"`
	Name    string    `json:"name"`
	Opened  time.Time `json:"opened"`
	Asked   time.Time `json:"asked"`   // last
	Planned uint64    `json:"planned"` // frames
	Refused uint64    `json:"refused"`
}

// Frame is what all frames of sessions have.
type Frame struct {
	Number          uint64    `json:"number"` // from 1
	At              time.Time `json:"at"`
	PlanningSeconds float64   `json:"planning_seconds"` // with the wait for a turn
}

// GPUSession is a run of exchanges of a GPU cluster, planned one after the other.
type GPUSession struct {
	Session
	GPUs          int `json:"gpus"`            // in all
	GPUsPerServer int `json:"gpus_per_server"` // 0 if the sites give the number of each server
	GPUFailures
	Frames []GPUFrame `json:"frames,omitempty"` // the latest, where a session is asked for by itself
}

// GPUFrame is a frame that was planned.
type GPUFrame struct {
	Frame
	Mode             string  `json:"mode"`
	Length           int64   `json:"length"` // bytes a NIC
	Bound            int64   `json:"bound"`
	PredictedSeconds float64 `json:"predicted_seconds"`
	GPUFailures
}

// GPUSessions is the answer of GET /v1/gpu/sessions.
type GPUSessions struct {
	Sessions []GPUSession `json:"sessions"`
}

// GPUFailures is the complete list of a cluster's failures; it replaces the previous one.
type GPUFailures struct {
	BadNICs  []string `json:"bad_nics"` // as --bad-nic of forsplan gpu schedule
	DeadGPUs []string `json:"dead_gpus"`
}

// OCSSession is a run of matrices for optical circuit switches, one a period.
type OCSSession struct {
	Session
	Racks    int     `json:"racks"`
	Switches int     `json:"switches"`
	Delta    float64 `json:"delta"`
	Period   float64 `json:"period"`
	ocs.Damage
	Periods []OCSPeriod `json:"periods,omitempty"` // the latest, where a session is asked for by itself
}

// OCSPeriod is a period that was planned.
type OCSPeriod struct {
	Frame
	Makespan       float64 `json:"makespan"`
	LowerBound     float64 `json:"lower_bound"`
	Late           float64 `json:"late"`
	Backlog        float64 `json:"backlog"`
	Fresh          bool    `json:"fresh"` // not made from the one before
	Kept           int     `json:"kept"`
	Configurations int     `json:"configurations"`
	ocs.Damage
}

// OCSSessions is the answer of GET /v1/optical/ocs/sessions.
type OCSSessions struct {
	Sessions []OCSSession `json:"sessions"`
}
