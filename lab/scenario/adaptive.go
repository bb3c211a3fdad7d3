package scenario

import (
	"fmt"
	"math"

	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/packets"
	"github.com/forsd/forsd/topology"
)

// Adaptive is a switch with adaptive routing, packet by packet, instead of an engine of
// OpenSM.
type Adaptive struct {
	Name string
	Age  float64 // of the queue lengths by which it chooses, in undisturbed transfers
}

// Adaptives are the adaptive switches that Run simulates: one that knows its queues, and
// others that learn of them later.
var Adaptives = []Adaptive{{"adaptive", 0}, {"adaptive, a tenth late", .1}, {"adaptive, a phase late", 1}}

// Of the phases of a linear shift one in sampled is simulated. It has no common factor with
// the slots of a leaf, so that all kinds of phases are drawn evenly.
const (
	sampled       = 7
	adaptiveBytes = 256 << 10
)

// adaptive simulates the packets of a linear shift with a barrier after each phase.
// Switches have a queue for each output, and hops take no time, so that only congestion
// counts.
func (o *Options) adaptive(s *Scenario, a Adaptive) (*Exchange, error) {
	fabric := o.Tree.Fabric(0)
	base, err := topology.NewBaseline(fabric)
	if err != nil {
		return nil, err
	}
	s.Damage(o.Tree, fabric)
	tree, err := topology.Fit(fabric, base, nil)
	if err != nil {
		return nil, err
	}
	all, phases := sim.LinearShift(tree), map[int32]bool{}
	var rows []sim.Row
	for _, r := range all {
		if phases[r.Phase] = true; r.Phase%sampled == 0 {
			rows = append(rows, r)
		}
	}
	cfg := packets.HDR
	transfer := adaptiveBytes * cfg.Byte
	cfg.Adaptive, cfg.Latency, cfg.Delay = true, 0, int64(a.Age*float64(transfer))
	r, err := packets.Run(fabric, nil, cfg, packets.Pacing{Pace: packets.Barrier}, packets.Of(rows, adaptiveBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	x := &Exchange{Engine: a.Name, Used: a.Name, Phases: len(phases), Mean: float64(r.Time) / float64(transfer) / float64(len(phases)/sampled)}
	x.Duration = int(math.Round(x.Mean * float64(x.Phases)))
	x.Throughput = float64(len(tree.Servers)-1) / float64(x.Duration)
	x.Gbps = Gbps(len(tree.Servers), x.Phases, x.Duration)
	return x, nil
}
