// Package pdr is the published description of NVIDIA's PDR deterministic plugin (UFM
// Enterprise User Manual) implemented independently, for tests to compare decisions about
// cables with: it keeps every reading of every port, and computes everything from them
// in each round.
package pdr

import (
	"slices"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/cablehealth"
)

// Limits are the thresholds of the description.
type Limits struct {
	Short, Long         time.Duration
	ShortRate, LongRate float64 // bit error rates
	Drops               float64
	Test                time.Duration // without errors, doubled with each return
	Returns             int           // within Week
	Week                time.Duration
	PerLeaf, InAll      int
}

// Published are the published thresholds.
func Published(perLeaf, inAll int) Limits {
	return Limits{Short: 12 * time.Minute, Long: 125 * time.Minute, ShortRate: 1e-14, LongRate: 1e-15, Drops: 1e-12,
		Test: 126 * time.Minute, Returns: 2, Week: 7 * 24 * time.Hour, PerLeaf: perLeaf, InAll: inAll}
}

// Round is a round of readings: of every cable, both ends.
type Round struct {
	At   time.Time
	Read map[cablehealth.Cable][2]ib.Counters
}

// Reference judges cables.
type Reference struct {
	limits   Limits
	rounds   []Round
	bad      map[cablehealth.Cable]time.Time // isolated, and since when
	since    map[cablehealth.Cable]int       // readings before this round are over
	returned map[cablehealth.Cable][]time.Time
}

// New judges by limits.
func New(l Limits) *Reference {
	return &Reference{limits: l, bad: map[cablehealth.Cable]time.Time{}, since: map[cablehealth.Cable]int{}, returned: map[cablehealth.Cable][]time.Time{}}
}

// Isolated lists the cables that are isolated, ascending.
func (p *Reference) Isolated() []cablehealth.Cable {
	var out []cablehealth.Cable
	for c := range p.bad {
		out = append(out, c)
	}
	slices.SortFunc(out, cablehealth.Compare)
	return out
}

// Step handles a round. The cables are in the order in which they are examined; costs
// reports which must not be isolated because of the cost.
func (p *Reference) Step(r Round, cables []cablehealth.Cable, gbps float64, costs func(cablehealth.Cable) bool) {
	p.rounds = append(p.rounds, r)
	var wanted []cablehealth.Cable
	for _, c := range cables {
		p.returned[c] = slices.DeleteFunc(p.returned[c], func(t time.Time) bool { return r.At.Sub(t) > p.limits.Week })
		if _, is := p.bad[c]; is {
			if p.clean(c) {
				delete(p.bad, c)
				p.returned[c] = append(p.returned[c], r.At)
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
		if leaf < p.limits.PerLeaf && len(p.bad) < p.limits.InAll && !costs(c) {
			p.bad[c] = r.At
		}
	}
}

// grown is how much a counter grew between two rounds, counted reading by reading: one
// that fell was reset and began at 0.
func (p *Reference) grown(c cablehealth.Cable, end int, from, to int, field func(ib.Counters) uint64) uint64 {
	n := uint64(0)
	for i := from + 1; i <= to; i++ {
		before, after := field(p.rounds[i-1].Read[c][end]), field(p.rounds[i].Read[c][end])
		if after >= before {
			n += after - before
		} else {
			n += after
		}
	}
	return n
}

// begin is the round at which a window that ends now begins.
func (p *Reference) begin(c cablehealth.Cable, window time.Duration) int {
	now := len(p.rounds) - 1
	at := p.since[c]
	for i := p.since[c]; i <= now; i++ {
		if p.rounds[now].At.Sub(p.rounds[i].At) >= window {
			at = i
		}
	}
	return at
}

func (p *Reference) judge(c cablehealth.Cable, gbps float64) bool {
	now, l := len(p.rounds)-1, &p.limits
	short, long := p.begin(c, l.Short), p.begin(c, l.Long)
	symbols := func(c ib.Counters) uint64 { return c.Symbols }
	downed := func(c ib.Counters) uint64 { return c.Downed }
	for end := range 2 {
		if float64(p.grown(c, end, short, now, symbols)) > gbps*1e9*l.Short.Seconds()*l.ShortRate {
			return true
		}
		if float64(p.grown(c, end, long, now, symbols)) > gbps*1e9*l.Long.Seconds()*l.LongRate {
			return true
		}
		dropped := float64(p.grown(c, end, short, now, func(c ib.Counters) uint64 { return c.Received }))
		sent := float64(p.grown(c, 1-end, short, now, func(c ib.Counters) uint64 { return c.Sent }))
		if dropped > 0 && dropped > l.Drops*sent {
			return true
		}
	}
	return p.grown(c, 0, short, now, downed) > 0 && p.grown(c, 1, short, now, downed) > 0
}

// clean reports whether an isolated port had no errors for its test time. A full
// counter may have had some.
func (p *Reference) clean(c cablehealth.Cable) bool {
	now := len(p.rounds) - 1
	test := p.limits.Test << len(p.returned[c])
	last := p.bad[c]
	for i := 1; i <= now; i++ {
		for end := range 2 {
			for _, field := range []func(ib.Counters) uint64{
				func(c ib.Counters) uint64 { return c.Symbols }, func(c ib.Counters) uint64 { return c.Received }, func(c ib.Counters) uint64 { return c.Downed },
			} {
				if (p.grown(c, end, i-1, i, field) > 0 || p.rounds[i].Read[c][end].Full) && p.rounds[i].At.After(last) {
					last = p.rounds[i].At
				}
			}
		}
	}
	return p.rounds[now].At.Sub(last) >= test && len(p.returned[c]) < p.limits.Returns
}
