package gpu

import (
	"fmt"
	"time"
)

// Model predicts how long a plan takes on a cluster.
type Model struct {
	B1      float64       // bytes per second that a GPU sends and receives inside its server
	B2      float64       // bytes per second that a NIC sends and receives
	Latency time.Duration // of each stage, and of each move of bytes inside servers
}

// DefaultModel is a server of today: 450 GB/s inside, NICs of 400 Gb/s, 10 µs to
// start a stage.
var DefaultModel = Model{B1: 450e9, B2: 50e9, Latency: 10 * time.Microsecond}

// orDefault returns m, or DefaultModel if m is zero.
func (m Model) orDefault() Model {
	if m == (Model{}) {
		return DefaultModel
	}
	return m
}

func (m Model) check() error {
	m = m.orDefault()
	if !(m.B1 >= 1 && m.B1 <= 1e18) || !(m.B2 >= 1 && m.B2 <= 1e18) || m.Latency < 0 {
		return fmt.Errorf("bandwidths of %v and %v bytes/s and a latency of %v: want bandwidths of 1 to 1e18 and no negative latency", m.B1, m.B2, m.Latency)
	}
	return nil
}

// Times holds the predicted times of a plan, in seconds.
type Times struct {
	Before float64 `json:"before"` // moves before the first stage
	Stages float64 `json:"stages"` // the stages alone
	Beside float64 `json:"beside"` // extra time for moves that take longer than the stage during which they run
	After  float64 `json:"after"`  // moves after the last stage
	Local  float64 `json:"local"`  // time of bytes that stay inside servers, if sent alone; they are sent during the stages
	Total  float64 `json:"total"`  // Before + Stages + Beside + After
}

// Predict predicts how long a plan takes. The steps of a plan are sequential. A step takes as
// long as its stage or the moves during it, whichever is longer; the moves take as long as
// the busiest GPU. A stage has a latency, and so do the moves of a step.
func (m Model) Predict(p *Plan) Times {
	m = m.orDefault().at(p.Site)
	lengths := make([]int64, len(p.Stages))
	for i := range lengths {
		lengths[i] = p.Stages[i].Length
	}
	t := m.times(lengths, p.Busiest)
	loads := make([]int64, 2*p.Ranks())
	most := int64(0)
	for _, x := range p.Local {
		if x.Source != x.Destination {
			loads[2*x.Source] += x.Bytes
			loads[2*x.Destination+1] += x.Bytes
			most = max(most, loads[2*x.Source], loads[2*x.Destination+1])
		}
	}
	t.Local = m.moves(most)
	return t
}

// Step holds the begin of a step of a plan, and the times of its stage and of the moves
// during it, in seconds. The first and the last step have no stage.
type Step struct{ Begin, Stage, Moves float64 }

// Steps returns the predicted steps of a plan: before the stages, each stage, and after
// them.
func (m Model) Steps(p *Plan) []Step {
	m = m.orDefault().at(p.Site)
	steps := make([]Step, len(p.Busiest))
	begin := 0.0
	for i, busiest := range p.Busiest {
		s := Step{Begin: begin, Moves: m.moves(busiest)}
		if i > 0 && i <= len(p.Stages) {
			s.Stage = m.stage(p.Stages[i-1].Length)
		}
		steps[i] = s
		begin += max(s.Stage, s.Moves)
	}
	return steps
}

// at returns the model of a site's channels, or m without a site.
func (m Model) at(s *Places) Model {
	if s != nil {
		m.B2 *= float64(s.Unit) / float64(s.Speed)
	}
	return m
}

// times returns the times of stages of these lengths. busiest is the number of bytes that the
// busiest GPU moves before, during and after them, [step].
func (m Model) times(lengths, busiest []int64) Times {
	t := Times{Before: m.moves(busiest[0])}
	t.Stages = m.stages(lengths)
	for i, v := range lengths {
		t.Beside += max(0, m.moves(busiest[i+1])-m.stage(v))
	}
	t.After = m.moves(busiest[len(lengths)+1])
	t.Total = t.Before + t.Stages + t.Beside + t.After
	return t
}

// stages is the time of stages without moves.
func (m Model) stages(lengths []int64) float64 {
	sum := int64(0)
	for _, v := range lengths {
		sum += v
	}
	return float64(sum)/m.B2 + float64(len(lengths))*m.Latency.Seconds()
}

func (m Model) stage(length int64) float64 { return float64(length)/m.B2 + m.Latency.Seconds() }

// moves is the time of moves inside servers if the busiest GPU has so many bytes.
func (m Model) moves(bytes int64) float64 {
	if bytes == 0 {
		return 0
	}
	return float64(bytes)/m.B1 + m.Latency.Seconds()
}
