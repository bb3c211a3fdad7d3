package tomography

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/packets"
	"github.com/forsd/forsd/topology"
)

// TestPackets slows a cable of a fabric whose packets are simulated, in one direction or in
// both, with ranks that are late by up to a tenth of a phase, queues that block, and noise of
// 10 % in the times.
func TestPackets(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 6, Leaves: 6, LMC: 1})
	tables, err := lft.Build(fabgen.Fitted(t, f))
	if err != nil {
		t.Fatal(err)
	}
	const bytes = 1 << 16
	links := Of(f)
	parts := links.Parts()
	messages := packets.Of(sim.HostShift(f.ConnectedHosts()), bytes)
	transfers := make([]Transfer, len(messages))
	for i, m := range messages {
		transfers[i].Phase = m.Phase
		if transfers[i].Links, err = links.Way(tables, m.Src, m.DLID); err != nil {
			t.Fatal(err)
		}
	}
	ports := map[int32]topology.PortRef{}
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			at := topology.PortRef{Node: int32(i), Port: uint8(p)}
			ports[links.Number(at)] = at
		}
	}
	rng := rand.New(rand.NewPCG(5, 1))
	named, wrong := 0, 0
	const draws = 24
	for draw := range draws {
		part := &parts[rng.IntN(len(parts))]
		for len(part.Links) > 2 {
			part = &parts[rng.IntN(len(parts))]
		}
		cfg := packets.HDR
		cfg.Queues, cfg.Seed, cfg.Slow = packets.FIFO, uint64(draw), map[topology.PortRef]float64{}
		by := .2 + .3*rng.Float64()
		for _, l := range part.Links {
			cfg.Slow[ports[l]] = 1 + by
		}
		phase := int64(bytes) * cfg.Byte
		result, err := packets.Run(f, tables, cfg, packets.Pacing{Pace: packets.ByLinks, Jitter: phase / 10}, messages)
		if err != nil {
			t.Fatal(err)
		}
		for i := range transfers {
			transfers[i].Took = float64(result.Took[i]) * math.Exp(.1*rng.NormFloat64())
		}
		r, err := slowest(transfers, parts)
		if err != nil {
			t.Fatal(err)
		}
		ok := false
		for i := range r.Slow {
			if r.Slow[i].Name == part.Name {
				ok = true
			} else {
				wrong++
			}
		}
		if ok {
			named++
		} else {
			t.Logf("%s, slower by %.2f: %v", part.Name, by, describe(r))
		}
	}
	t.Logf("%d of %d parts are named, %d names are wrong", named, draws, wrong)
	if named < draws-1 || wrong > 1 {
		t.Errorf("%d of %d parts are named, %d names are wrong", named, draws, wrong)
	}
}
