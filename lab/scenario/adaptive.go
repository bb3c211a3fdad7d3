package scenario

import (
	"fmt"
	"math"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/packets"
)

// Adaptive is a switch with adaptive routing, packet by packet, in place of tables alone.
type Adaptive struct {
	Name string
	Age  float64 // of the queue lengths by which it chooses, in undisturbed transfers
}

// Adaptives are the adaptive switches that Run simulates: one that knows its queues, and
// others that learn of them later.
var Adaptives = []Adaptive{{"adaptive", 0}, {"adaptive-0.1", .1}}

// Of many phases of a linear shift one in sampled is simulated. It is a prime number that few
// numbers of slots of a leaf are multiples of, so that all kinds of phases are drawn evenly.
const (
	sampled       = 7
	many          = 100
	adaptiveBytes = 256 << 10
)

// adaptive simulates the packets of a linear shift with a barrier after each phase.
// Switches have a queue for each output, prefer the port of balanced tables, and take no
// time, so that only congestion counts.
func (o *Options) adaptive(s *Scenario, a Adaptive) (*Exchange, error) {
	tree, err := s.fit(o.Tree, 0)
	if err != nil {
		return nil, err
	}
	all, phases, drawn := sim.LinearShift(tree), map[int32]bool{}, map[int32]bool{}
	var rows []sim.Row
	for _, r := range all {
		if phases[r.Phase] = true; len(all) < many*len(tree.Servers) || r.Phase%sampled == 0 {
			rows, drawn[r.Phase] = append(rows, r), true
		}
	}
	tables, err := lft.Build(tree)
	if err != nil {
		return nil, err
	}
	cfg := packets.HDR
	transfer := adaptiveBytes * cfg.Byte
	cfg.Adaptive, cfg.Latency, cfg.Delay = true, 0, int64(a.Age*float64(transfer))
	r, err := packets.Run(tree.Fabric, tables, cfg, packets.Pacing{Pace: packets.Barrier}, packets.Of(rows, adaptiveBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	x := &Exchange{Engine: a.Name, Used: a.Name, Phases: len(phases), Mean: float64(r.Time) / float64(transfer) / float64(len(drawn))}
	x.Duration = int(math.Round(x.Mean * float64(x.Phases)))
	x.Throughput = float64(len(tree.Servers)-1) / float64(x.Duration)
	x.Gbps = Gbps(len(tree.Servers), x.Phases, x.Duration)
	return x, nil
}
