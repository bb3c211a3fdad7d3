package gpu

// Report is a plan for programs and people: what forsctl and the API print.
type Report struct {
	Version int `json:"version"`
	Cluster
	Mode             Mode      `json:"mode"`
	Grain            int64     `json:"grain"`
	Length           int64     `json:"length"` // bytes a NIC
	Bound            int64     `json:"bound"`  // Eq. 26
	MovesBefore      int64     `json:"moves_before"`
	MovesAfter       int64     `json:"moves_after"`
	PredictedSeconds float64   `json:"predicted_seconds"`
	Predicted        Times     `json:"predicted"`
	Stages           []Stage   `json:"stages"`
	Programs         []Program `json:"programs,omitempty"`
}

// Report sums the plan up, with what it takes by a model. Programs are left out.
func (p *Plan) Report(m Model) *Report {
	times := m.Predict(p)
	return &Report{
		Version: 1, Cluster: p.Cluster, Mode: p.Mode, Grain: p.Grain, Length: p.Length, Bound: p.Bound,
		MovesBefore: p.MovesBefore, MovesAfter: p.MovesAfter, PredictedSeconds: times.Total, Predicted: times, Stages: p.Stages,
	}
}
