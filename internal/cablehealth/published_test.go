package cablehealth_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/testbed/histories"
	"github.com/forsd/forsd/testbed/pdr"
)

// drawCounters adds an interval to a cable's counters: nothing, noise, a ramp, a burst, a link
// failure, growth to the maximum, or a reset.
func drawCounters(r *rapid.T, kind string, step int, c *[2]ib.Counters) {
	for i := range c {
		c[i].Sent += uint64(rapid.IntRange(0, 1<<30).Draw(r, "sent"))
	}
	end := &c[rapid.IntRange(0, 1).Draw(r, "end")]
	switch kind {
	case "noise":
		if rapid.IntRange(0, 9).Draw(r, "noise") == 0 {
			end.Symbols++
		}
	case "ramp":
		end.Symbols += uint64(step / 3)
	case "burst":
		if rapid.IntRange(0, 19).Draw(r, "burst") == 0 {
			end.Symbols += uint64(rapid.IntRange(0, 50).Draw(r, "symbols"))
			end.Received += uint64(rapid.IntRange(0, 2).Draw(r, "received"))
		}
	case "bounces":
		if rapid.IntRange(0, 29).Draw(r, "bounce") == 0 {
			c[0].Downed++
			c[1].Downed++
		}
	case "one end":
		c[0].Downed++
	case "full":
		if rapid.IntRange(0, 19).Draw(r, "full") == 0 {
			end.Symbols, end.Full = 65535, true
		}
	}
	if rapid.IntRange(0, 39).Draw(r, "reset") == 0 {
		*end = ib.Counters{Symbols: uint64(rapid.IntRange(0, 2).Draw(r, "after the reset"))}
	}
}

// TestAgainstPublished checks on random histories that after each round the same cables are
// isolated as by the published description.
func TestAgainstPublished(t *testing.T) {
	histories.Check(t, 1000, func(r *rapid.T) {
		cables := make([]cablehealth.Cable, rapid.IntRange(1, 12).Draw(r, "cables"))
		kinds := make([]string, len(cables))
		for i := range cables {
			cables[i] = cablehealth.Cable{Leaf: ib.End{GUID: ib.GUID(1 + i/4), Port: uint8(i)}, Spine: ib.End{GUID: 100, Port: uint8(i)}}
			kinds[i] = rapid.SampledFrom([]string{"good", "noise", "ramp", "burst", "bounces", "one end", "full"}).Draw(r, "kind")
		}
		gbps := rapid.SampledFrom([]float64{100, 200, 400}).Draw(r, "gbps")
		costly := func(c cablehealth.Cable) bool { return c.Leaf.Port == 3 }
		set := cablehealth.Defaults()
		set.Mode, set.PerLeaf, set.InAll = cablehealth.Isolate, rapid.IntRange(1, 3).Draw(r, "per leaf"), rapid.IntRange(1, 6).Draw(r, "in all")
		m := cablehealth.New(set, nil)
		ref := pdr.New(pdr.Published(set.PerLeaf, set.InAll))
		now := time.Unix(0, 0)
		counters := make([][2]ib.Counters, len(cables))
		for step := range rapid.IntRange(5, 150).Draw(r, "rounds") {
			now = now.Add(time.Duration(rapid.IntRange(30, 600).Draw(r, "seconds")) * time.Second)
			read := pdr.Round{At: now, Read: map[cablehealth.Cable][2]ib.Counters{}}
			round := cablehealth.Round{}
			for i, c := range cables {
				drawCounters(r, kinds[i], step, &counters[i])
				read.Read[c] = counters[i]
				ends := counters[i]
				round.Readings = append(round.Readings, cablehealth.Reading{Cable: c, Gbps: gbps, Ends: [2]*ib.Counters{&ends[0], &ends[1]}})
			}
			ref.Step(read, cables, gbps, costly)
			for todo := m.Step(now, round); len(todo) > 0; todo = todo[1:] {
				if a, is := todo[0].(cablehealth.Weigh); is {
					w := cablehealth.Weighed{Cable: a.Cable}
					if costly(a.Cable) {
						w.Phases, w.Refuse = 1, "it would cost 1 phase"
					}
					todo = append(todo, m.Step(now, w)...)
				}
			}
			if got, want := m.Isolated(), ref.Isolated(); !slices.Equal(got, want) {
				r.Fatalf("round %d: isolated %v, and by the published rules %v\n%s", step, got, want, fmt.Sprint(kinds))
			}
		}
	})
}
