package cablehealth

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forsd/forsd/topology"

	"pgregory.net/rapid"
)

// pdr is the published description of the plugin, written down on its own: it keeps
// every reading of every port, and computes everything anew from them on each round.
type pdr struct {
	rounds    []pdrRound
	bad       map[Cable]time.Time // isolated, and since when
	since     map[Cable]int       // readings before this round are over
	returned  map[Cable][]time.Time
	perLeaf   int
	all       int
	short     time.Duration
	long      time.Duration
	shortRate float64
	longRate  float64
}

type pdrRound struct {
	at   time.Time
	read map[Cable][2]Counters
}

// grown is how much a counter grew between two rounds, counted reading by reading: one
// that fell was reset and began at 0.
func (p *pdr) grown(c Cable, end int, from, to int, field func(Counters) uint64) uint64 {
	n := uint64(0)
	for i := from + 1; i <= to; i++ {
		before, after := field(p.rounds[i-1].read[c][end]), field(p.rounds[i].read[c][end])
		if after >= before {
			n += after - before
		} else {
			n += after
		}
	}
	return n
}

// begin is the round at which a window that ends now begins.
func (p *pdr) begin(c Cable, window time.Duration) int {
	now := len(p.rounds) - 1
	at := p.since[c]
	for i := p.since[c]; i <= now; i++ {
		if p.rounds[now].at.Sub(p.rounds[i].at) >= window {
			at = i
		}
	}
	return at
}

func (p *pdr) judge(c Cable, gbps float64) bool {
	now := len(p.rounds) - 1
	s, l := p.begin(c, p.short), p.begin(c, p.long)
	symbols := func(c Counters) uint64 { return c.Symbols }
	downed := func(c Counters) uint64 { return c.Downed }
	for end := range 2 {
		if float64(p.grown(c, end, s, now, symbols)) > gbps*1e9*p.short.Seconds()*p.shortRate {
			return true
		}
		if float64(p.grown(c, end, l, now, symbols)) > gbps*1e9*p.long.Seconds()*p.longRate {
			return true
		}
		dropped := float64(p.grown(c, end, s, now, func(c Counters) uint64 { return c.Received }))
		sent := float64(p.grown(c, 1-end, s, now, func(c Counters) uint64 { return c.Sent }))
		if dropped > 0 && dropped > 1e-12*sent {
			return true
		}
	}
	return p.grown(c, 0, s, now, downed) > 0 && p.grown(c, 1, s, now, downed) > 0
}

// clean tells whether a port that is isolated had no errors for its test time.
func (p *pdr) clean(c Cable) bool {
	now := len(p.rounds) - 1
	test := 126 * time.Minute << len(p.returned[c])
	last := p.bad[c]
	for i := 1; i <= now; i++ {
		for end := range 2 {
			for _, field := range []func(Counters) uint64{
				func(c Counters) uint64 { return c.Symbols }, func(c Counters) uint64 { return c.Received }, func(c Counters) uint64 { return c.Downed },
			} {
				if p.grown(c, end, i-1, i, field) > 0 && p.rounds[i].at.After(last) {
					last = p.rounds[i].at
				}
			}
		}
	}
	return p.rounds[now].at.Sub(last) >= test && len(p.returned[c]) < 2
}

// step takes a round, and gives the ports that are isolated after it.
func (p *pdr) step(r pdrRound, cables []Cable, gbps float64, costs func(Cable) bool) {
	p.rounds = append(p.rounds, r)
	var wanted []Cable
	for _, c := range cables {
		p.returned[c] = slices.DeleteFunc(p.returned[c], func(t time.Time) bool { return r.at.Sub(t) > 7*24*time.Hour })
		if _, is := p.bad[c]; is {
			if p.clean(c) {
				delete(p.bad, c)
				p.returned[c] = append(p.returned[c], r.at)
				p.since[c] = len(p.rounds) - 1
			}
			continue
		}
		if p.judge(c, gbps) {
			wanted = append(wanted, c)
		}
	}
	for _, c := range wanted {
		leaf := 0
		for b := range p.bad {
			if b.Leaf.GUID == c.Leaf.GUID {
				leaf++
			}
		}
		if leaf < p.perLeaf && len(p.bad) < p.all && !costs(c) {
			p.bad[c] = r.at
		}
	}
}

// drawCounters lets a cable count for an interval: nothing, noise, a ramp, a burst, a
// link that goes down, or a reset by somebody.
func drawCounters(r *rapid.T, kind string, step int, c *[2]Counters) {
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
	}
	if rapid.IntRange(0, 39).Draw(r, "reset") == 0 {
		*end = Counters{Symbols: uint64(rapid.IntRange(0, 2).Draw(r, "after the reset"))}
	}
}

// TestAgainstPublished: on random histories the cables that are isolated after each round
// are those that the published description isolates.
func TestAgainstPublished(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cables := make([]Cable, rapid.IntRange(1, 12).Draw(r, "cables"))
		kinds := make([]string, len(cables))
		for i := range cables {
			cables[i] = Cable{End{topology.GUID(1 + i/4), uint8(i)}, End{100, uint8(i)}}
			kinds[i] = rapid.SampledFrom([]string{"good", "noise", "ramp", "burst", "bounces", "one end"}).Draw(r, "kind")
		}
		gbps := rapid.SampledFrom([]float64{100, 200, 400}).Draw(r, "gbps")
		costly := func(c Cable) bool { return c.Leaf.Port == 3 }
		set := Defaults()
		set.Mode, set.PerLeaf, set.InAll = Isolate, rapid.IntRange(1, 3).Draw(r, "per leaf"), rapid.IntRange(1, 6).Draw(r, "in all")
		m := New(set, nil)
		ref := &pdr{bad: map[Cable]time.Time{}, since: map[Cable]int{}, returned: map[Cable][]time.Time{}, perLeaf: set.PerLeaf, all: set.InAll,
			short: 12 * time.Minute, long: 125 * time.Minute, shortRate: 1e-14, longRate: 1e-15}
		now := time.Unix(0, 0)
		counters := make([][2]Counters, len(cables))
		for step := range rapid.IntRange(5, 150).Draw(r, "rounds") {
			now = now.Add(time.Duration(rapid.IntRange(30, 600).Draw(r, "seconds")) * time.Second)
			read := pdrRound{now, map[Cable][2]Counters{}}
			round := Round{}
			for i, c := range cables {
				drawCounters(r, kinds[i], step, &counters[i])
				read.read[c] = counters[i]
				ends := counters[i]
				round.Readings = append(round.Readings, Reading{Cable: c, Gbps: gbps, Ends: [2]*Counters{&ends[0], &ends[1]}})
			}
			ref.step(read, cables, gbps, costly)
			for todo := m.Step(now, round); len(todo) > 0; todo = todo[1:] {
				if a, is := todo[0].(Weigh); is {
					w := Weighed{Cable: a.Cable}
					if costly(a.Cable) {
						w.Phases, w.Refuse = 1, "it would cost 1 phase"
					}
					todo = append(todo, m.Step(now, w)...)
				}
			}
			var want []Cable
			for c := range ref.bad {
				want = append(want, c)
			}
			slices.SortFunc(want, Compare)
			if got := m.Isolated(); !slices.Equal(got, want) {
				r.Fatalf("round %d: isolated %v, and by the published rules %v\n%s", step, got, want, fmt.Sprint(kinds))
			}
		}
	})
}
