package cablehealth

import (
	"time"

	"github.com/forsd/forsd/ib"
)

// Rates are counts within a window.
type Rates struct {
	ib.Counters
	Over time.Duration `json:"over_ns"` // the observed part of the window
}

// sum holds counts since the first reading, which never decrease.
type sum struct {
	at    time.Time
	count ib.Counters
}

// history has the samples of an end over the longest window.
type history struct {
	last  ib.Counters // the last reading
	known bool
	sums  []sum // oldest first
}

// fields returns pointers to all counters.
func fields(c *ib.Counters) [9]*uint64 {
	return [9]*uint64{&c.Symbols, &c.Recoveries, &c.Downed, &c.Received, &c.Discards, &c.Integrity, &c.Overruns, &c.Sent, &c.Wait}
}

// add adds a reading. A counter below its previous value was reset by an operator or a reboot,
// and has counted from 0 since.
func (h *history) add(at time.Time, c *ib.Counters, keep time.Duration) {
	s := sum{at: at}
	if len(h.sums) > 0 {
		newest := &h.sums[len(h.sums)-1]
		if !at.After(newest.at) { // the clock was set back: keep the earlier samples
			s.at = newest.at.Add(1)
		}
		s.count = newest.count
	}
	now, last, total := fields(c), fields(&h.last), fields(&s.count)
	for i := range now {
		switch {
		case !h.known:
		case *now[i] >= *last[i]:
			*total[i] += *now[i] - *last[i]
		default:
			*total[i] += *now[i]
		}
	}
	h.last, h.known = *c, true
	h.sums = append(h.sums, s)
	old := 0
	for old+1 < len(h.sums) && !h.sums[old+1].at.After(s.at.Add(-keep)) {
		old++
	}
	h.sums = append(h.sums[:0], h.sums[old:]...)
}

// rates returns the counts over the window that ends with the newest reading: since the latest
// reading before the window, or since the first reading.
func (h *history) rates(window time.Duration) Rates {
	if len(h.sums) == 0 {
		return Rates{}
	}
	newest := &h.sums[len(h.sums)-1]
	from := 0
	for from+1 < len(h.sums) && !h.sums[from+1].at.After(newest.at.Add(-window)) {
		from++
	}
	r := Rates{Counters: newest.count, Over: newest.at.Sub(h.sums[from].at)}
	a, b := fields(&r.Counters), fields(&h.sums[from].count)
	for i := range a {
		*a[i] -= *b[i]
	}
	return r
}

// fresh returns the counts between the last two readings.
func (h *history) fresh() ib.Counters {
	n := len(h.sums)
	if n < 2 {
		return ib.Counters{}
	}
	c := h.sums[n-1].count
	a, b := fields(&c), fields(&h.sums[n-2].count)
	for i := range a {
		*a[i] -= *b[i]
	}
	return c
}
