package gpu

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anyTraffic draws a cluster and the bytes that its GPUs send each other: none, a few or many,
// including inside servers.
func anyTraffic(t *rapid.T) *Traffic {
	c := Cluster{rapid.IntRange(1, 7).Draw(t, "servers"), rapid.IntRange(1, 5).Draw(t, "GPUs")}
	x := must(NewTraffic(c))
	most := rapid.SampledFrom([]int64{1, 3, 100, 1 << 20, 1 << 40}).Draw(t, "most")
	density := rapid.IntRange(0, 100).Draw(t, "density")
	hot := rapid.IntRange(0, c.Ranks()-1).Draw(t, "hot")
	for at := range x.Bytes {
		if rapid.IntRange(0, 99).Draw(t, "dice") < density {
			x.Bytes[at] = rapid.Int64Range(0, most).Draw(t, "bytes")
			if at%c.Ranks() == hot {
				x.Bytes[at] *= 8
			}
		}
	}
	return x
}

func anyOptions(t *rapid.T) Options {
	o := Options{Mode: rapid.SampledFrom(Modes).Draw(t, "mode"), Model: Model{
		B1: rapid.SampledFrom([]float64{1e9, 50e9, 450e9}).Draw(t, "B1"), B2: 50e9,
		Latency: time.Duration(rapid.IntRange(0, 20).Draw(t, "latency")) * time.Microsecond,
	}}
	switch o.Mode {
	case Bytes, Auto:
		o.Fewest = rapid.Bool().Draw(t, "fewest")
		o.MaxStage = rapid.SampledFrom([]int64{0, 0, 1 << 16, 1 << 38}).Draw(t, "max stage")
		o.MaxStretch = rapid.SampledFrom([]float64{0, 1, 1.05, 2}).Draw(t, "stretch")
	default:
		o.Grain = 1 << 36
	}
	return o
}

// For any traffic and in every mode, all bytes arrive, no byte is sent before it has arrived
// or overwritten before it is sent on, and the plan's statistics of its moves, step by step,
// are correct.
func TestOverlap(t *testing.T) {
	var p Planner
	rapid.Check(t, func(t *rapid.T) {
		traffic, o := anyTraffic(t), anyOptions(t)
		if o.MaxStage == 1<<16 && traffic.Bound() > 1<<24 {
			o.MaxStage = 0
		}
		if o.Grain > 0 && slices.Max(traffic.Bytes) <= 100 {
			o.Grain = 1
		} else if o.Grain > 0 && slices.Max(traffic.Bytes) <= 1<<24 {
			o.Grain = 1 << 16
		}
		plan, err := p.Plan(t.Context(), traffic, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(t.Context(), traffic, plan); err != nil {
			t.Fatal(err)
		}
		if least := float64(traffic.Bound()) / o.Model.B2; o.Model.Predict(plan).Total < least*.999999 {
			t.Errorf("%v s are predicted, and no plan takes less than %v", o.Model.Predict(plan).Total, least)
		}
		for i := range plan.Stages {
			if o.MaxStage > 0 && plan.Stages[i].Length > o.MaxStage {
				t.Errorf("stage %d has %d bytes, want %d at most", i, plan.Stages[i].Length, o.MaxStage)
			}
		}
	})
}

// If GPUs move bytes inside their servers as fast as all their NICs together send them, the
// moves during a stage are bounded by its neighbours' lengths.
func TestOverlapHides(t *testing.T) {
	for _, pattern := range Patterns {
		traffic, err := Generate(Cluster{8, 8}, pattern, 1<<20, .9, 1)
		if err != nil {
			t.Fatal(err)
		}
		var p Planner
		plan, err := p.Plan(t.Context(), traffic, Options{Mode: Bytes, MaxStage: traffic.Bound() / 40})
		if err != nil {
			t.Fatal(err)
		}
		at := func(i int) int64 {
			if i < 0 || i >= len(plan.Stages) {
				return 0
			}
			return plan.Stages[i].Length
		}
		for step, v := range plan.Busiest {
			if i := step - 1; v > 8*max(at(i-1), at(i+1)) {
				t.Errorf("%s: during stage %d a GPU moves %d bytes, and its neighbours have %d and %d", pattern, i, v, at(i-1), at(i+1))
			}
		}
		if x := DefaultModel.Predict(plan); x.Before+x.Beside+x.After > x.Stages/20 {
			t.Errorf("%s: %+v", pattern, x)
		}
	}
}

// Replay detects bytes that are moved to a NIC while the NIC sends them, moved on while they
// arrive, or written into the half of a buffer that is in use.
func TestReplayFindsRaces(t *testing.T) {
	traffic, plan := good(t, Bytes)
	if len(plan.Stages) < 3 {
		t.Fatalf("%d stages are too few", len(plan.Stages))
	}
	for name, spoil := range map[string]func(p *Program){
		"to NICs in the stage itself": func(p *Program) { later(p.Before, 1, 1) },
		"from NICs in the stage":      func(p *Program) { later(p.After, 2, -1) },
		"one half alone for sending":  func(p *Program) { oneHalf(p.Before.Receive, p.Send, &p.NICSend) },
		"one half alone for receiving": func(p *Program) {
			oneHalf(p.After.Send, p.Receive, &p.NICRecv)
		},
	} {
		programs := must(plan.Programs(bg))
		for r := range programs {
			spoil(&programs[r])
		}
		if err := Replay(t.Context(), traffic, lengths(plan), programs); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
}

// later delays the moves of a stage by so many stages.
func later(m Moves, stage, by int) {
	for _, list := range [][]Move{m.Send, m.Receive} {
		for i := range list {
			if list[i].Beside == stage {
				list[i].Beside += by
			}
		}
	}
}

// oneHalf makes all stages use one half of a buffer.
func oneHalf(moves []Move, turns []Turn, size *int64) {
	most := int64(0)
	odd := *size
	for i := range turns {
		most = max(most, turns[i].Bytes)
		if turns[i].Stage%2 == 1 {
			odd = min(odd, turns[i].Offset)
		}
	}
	for i := range turns {
		if turns[i].Stage%2 == 1 {
			turns[i].Offset -= odd
		}
	}
	for i := range moves {
		if moves[i].Offset >= odd {
			moves[i].Offset -= odd
		}
	}
	*size = most
}
