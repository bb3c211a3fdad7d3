package sessions

import (
	"time"

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
