package api

import "time"

// GPUSession is a run of exchanges of a GPU cluster, planned one after the other.
type GPUSession struct {
	ID            uint64     `json:"id"`
	Name          string     `json:"name"`
	GPUs          int        `json:"gpus"`            // in all
	GPUsPerServer int        `json:"gpus_per_server"` // 0 where a site says what each server has
	Opened        time.Time  `json:"opened"`
	Asked         time.Time  `json:"asked"`    // last
	BadNICs       []string   `json:"bad_nics"` // as in POST /v1/gpu/schedule
	DeadGPUs      []string   `json:"dead_gpus"`
	Planned       uint64     `json:"planned"` // frames
	Refused       uint64     `json:"refused"`
	Frames        []GPUFrame `json:"frames,omitempty"` // the latest, where a session is asked for by itself
}

// GPUFrame is a frame that was planned.
type GPUFrame struct {
	Number           uint64    `json:"number"` // from 1
	At               time.Time `json:"at"`
	Mode             string    `json:"mode"`
	Length           int64     `json:"length"` // bytes a NIC
	Bound            int64     `json:"bound"`
	PredictedSeconds float64   `json:"predicted_seconds"`
	PlanningSeconds  float64   `json:"planning_seconds"` // the wait for a turn included
	BadNICs          []string  `json:"bad_nics"`
	DeadGPUs         []string  `json:"dead_gpus"`
}

// GPUSessions is the answer of GET /v1/gpu/sessions.
type GPUSessions struct {
	Sessions []GPUSession `json:"sessions"`
}

// GPUFailures is what has failed of a cluster: all of it, in place of what was named before.
type GPUFailures struct {
	BadNICs  []string `json:"bad_nics"`
	DeadGPUs []string `json:"dead_gpus"`
}

// GPUEvent is the data of an event of the kind KindGPU.
type GPUEvent struct {
	What    string     `json:"what"` // opened, failures, replanned or ended
	Session GPUSession `json:"session"`
	Frame   *GPUFrame  `json:"frame,omitempty"` // the first one planned after a change of the failures
	Text    string     `json:"text"`
}
