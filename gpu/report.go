package gpu

// Report summarizes a plan for programs and people; forsplan prints it.
type Report struct {
	Version int `json:"version"`
	Cluster
	Mode             Mode     `json:"mode"`
	Grain            int64    `json:"grain"`
	Length           int64    `json:"length"` // bytes per NIC
	Bound            int64    `json:"bound"`  // Eq. 26
	MovesBefore      int64    `json:"moves_before"`
	MovesAfter       int64    `json:"moves_after"`
	NICBuffer        int64    `json:"nic_buffer"` // bytes of the largest buffer of a NIC, for sending or for receiving
	PredictedSeconds float64  `json:"predicted_seconds"`
	Predicted        Times    `json:"predicted"`
	Outlook          *Outlook `json:"outlook,omitempty"`
	// For a site whose servers are not all alike: the place of each rank, the speed of a
	// channel, and the proof that no plan is shorter.
	Places      []Place      `json:"places,omitempty"`
	Unit        int64        `json:"unit,omitempty"`
	Certificate *Certificate `json:"certificate,omitempty"`
	// For tokens that are sent once to each server: their size, the direction, and the bytes
	// that NICs send, in all if each token is sent once to each server, GPU and expert.
	TokenBytes int64          `json:"token_bytes,omitempty"`
	Returns    bool           `json:"returns,omitempty"`
	Sent       map[Once]int64 `json:"sent,omitempty"`
	Stages     []Stage        `json:"stages"`
	Programs   []Program      `json:"programs,omitempty"`
}

// Report summarizes the plan, with its times by a model and without programs.
func (p *Plan) Report(m Model) *Report {
	times := m.Predict(p)
	r := &Report{
		Version: 2, Cluster: p.Cluster, Mode: p.Mode, Grain: p.Grain, Length: p.Length, Bound: p.Bound,
		MovesBefore: p.MovesBefore, MovesAfter: p.MovesAfter, NICBuffer: p.buffer(), PredictedSeconds: times.Total, Predicted: times, Outlook: p.Outlook, Stages: p.Stages,
	}
	if p.Site != nil {
		r.Places, r.Unit, r.Certificate = p.Site.Place, p.Site.Unit, p.Certificate
	}
	if x := p.Tokens; x != nil {
		r.TokenBytes, r.Returns = x.Bytes, p.Returns
		r.Sent = map[Once]int64{ToServer: x.Sent(ToServer), ToGPU: x.Sent(ToGPU), ToExpert: x.Sent(ToExpert)}
	}
	return r
}

// buffer is the size of the largest buffer of a NIC.
func (p *Plan) buffer() (most int64) {
	send, recv := p.halves(0, Rank(p.Ranks()))
	for r := range send {
		most = max(most, send[r][0]+send[r][1], recv[r][0]+recv[r][1])
	}
	return most
}
