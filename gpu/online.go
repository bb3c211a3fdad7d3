package gpu

import (
	"context"
	"fmt"
)

// Scheduler plans one frame after the other, by dynamic frame sizing (Sec. V): what
// arrives during a frame waits for the next, which is as long as it takes to send
// all of it, or 1 slot where nothing waits. Time is in slots, of a packet a NIC.
// A Scheduler must not be used by two goroutines at once.
type Scheduler struct {
	planner Planner
	options Options
	waiting *Traffic
	frame   *Traffic // what the last frame served
	stats   Statistics
	backlog int64 // packets waiting
}

// Statistics is what a Scheduler has seen, in packets and slots.
type Statistics struct {
	Frames     int     `json:"frames"`
	Slots      int64   `json:"slots"` // of all frames
	MeanFrame  float64 `json:"mean_frame"`
	MaxFrame   int64   `json:"max_frame"`
	Arrived    int64   `json:"arrived"`
	Served     int64   `json:"served"`
	Backlog    int64   `json:"backlog"`     // waiting now
	MaxBacklog int64   `json:"max_backlog"` // at the beginning of a frame
	MaxQueue   int64   `json:"max_queue"`   // of one pair of GPUs, at the beginning of a frame
	MeanServed float64 `json:"mean_served"` // a frame
	Throughput float64 `json:"throughput"`  // packets served a slot
}

// NewScheduler is a scheduler whose frames are planned with the options, of which
// the mode must be one that keeps to packets: Rails, which is the default, MinMove,
// Paper or None.
func NewScheduler(c Cluster, o Options) (*Scheduler, error) {
	switch o.Mode {
	case "":
		o.Mode = Rails
	case Rails, MinMove, Paper, None:
	default:
		return nil, fmt.Errorf("schedule frames in mode %q: want %s, %s, %s or %s", o.Mode, Rails, MinMove, Paper, None)
	}
	if o.Grain > 1 || o.MaxStretch > 1 || o.Fewest {
		return nil, fmt.Errorf("schedule frames in mode %s with a grain, a stretch or fewest stages: frames are of packets, which are never divided", o.Mode)
	}
	waiting, err := NewTraffic(c)
	if err != nil {
		return nil, err
	}
	frame, err := NewTraffic(c)
	return &Scheduler{options: o, waiting: waiting, frame: frame}, err
}

// Arrive queues packets of one rank for another. It fails where a rank does not
// exist, or there are fewer than 1 packet or too many.
func (s *Scheduler) Arrive(source, destination Rank, packets int64) error {
	ranks := Rank(s.waiting.Ranks())
	if source < 0 || source >= ranks || destination < 0 || destination >= ranks {
		return fmt.Errorf("packets from rank %d to rank %d: there are ranks 0 to %d", source, destination, ranks-1)
	}
	if packets < 1 || packets > maxTotal-s.backlog {
		return fmt.Errorf("%d packets from rank %d to rank %d: want at least 1, and at most %d waiting", packets, source, destination, int64(maxTotal))
	}
	s.waiting.Bytes[int(source)*int(ranks)+int(destination)] += packets
	s.backlog += packets
	s.stats.Arrived += packets
	return nil
}

// NextFrame ends the frame at hand and begins the next, which serves all that waits.
// It returns its plan, whose length is 0 where nothing has to leave a server, and
// the slots that it takes, 1 at least. Where ctx ends before the plan is made, it
// fails, and the frame at hand goes on.
func (s *Scheduler) NextFrame(ctx context.Context) (*Plan, int64, error) {
	plan, err := s.planner.Plan(ctx, s.waiting, s.options)
	if err != nil {
		return nil, 0, err
	}
	for _, v := range s.waiting.Bytes {
		s.stats.MaxQueue = max(s.stats.MaxQueue, v)
	}
	s.waiting, s.frame = s.frame, s.waiting
	clear(s.waiting.Bytes)
	slots := max(1, plan.Length)
	s.stats.Frames++
	s.stats.Slots += slots
	s.stats.MaxFrame = max(s.stats.MaxFrame, slots)
	s.stats.MaxBacklog = max(s.stats.MaxBacklog, s.backlog)
	s.stats.Served += s.backlog
	s.backlog = 0
	return plan, slots, nil
}

// Frame is the traffic that the last frame serves, until the next call of
// NextFrame.
func (s *Scheduler) Frame() *Traffic { return s.frame }

// Statistics is what has been seen so far.
func (s *Scheduler) Statistics() Statistics {
	out := s.stats
	out.Backlog = s.backlog
	if out.Frames > 0 {
		out.MeanFrame = float64(out.Slots) / float64(out.Frames)
		out.MeanServed = float64(out.Served) / float64(out.Frames)
		out.Throughput = float64(out.Served) / float64(out.Slots)
	}
	return out
}
