package cablehealth

import (
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/ib"
)

// round judges every cable that was read. It first takes back those that have passed their
// test, to make room for others.
func (m *Monitor) round(now time.Time, e Round) {
	if e.All != nil {
		m.forget(now, e.All)
	}
	if m.set.Mode == Off {
		return
	}
	m.read = now
	for _, r := range e.Readings {
		w := m.watch(r.Cable)
		w.gbps, w.slow = r.Gbps, r.Slow
		w.downs = slices.DeleteFunc(w.downs, func(at time.Time) bool { return now.Sub(at) > m.set.Long })
		clean := !r.Aside
		for i, c := range r.Ends {
			if c == nil {
				clean = false // an end that cannot be read proves nothing
				continue
			}
			w.ends[i].add(now, c, max(m.set.Short, m.set.Long))
			fresh := w.ends[i].fresh()
			clean = clean && fresh.Symbols+fresh.Recoveries+fresh.Downed+fresh.Received+fresh.Integrity+fresh.Overruns == 0 && !c.Full
		}
		if !clean {
			w.Clean = now
		}
		if r.Aside {
			w.begin()
		}
		w.verdict = m.judge(w)
	}
	for _, c := range m.order {
		if w := m.cables[c]; w.State == Isolated {
			m.tested(now, c, w)
		}
	}
	for _, c := range m.order {
		m.decide(now, c, m.cables[c])
	}
}

// measured judges the cables whose transfers were timed.
func (m *Monitor) measured(now time.Time, e Measured) {
	if m.set.Mode == Off {
		return
	}
	if m.read.IsZero() {
		m.read = now // a cable that is isolated now has yet to pass its test
	}
	for i := range e {
		if w := m.watch(e[i].Cable); w.up {
			w.timed = &e[i]
			w.verdict = m.judge(w)
			m.decide(now, e[i].Cable, w)
		}
	}
}

// forget drops the cables that are not in all. An isolated cable stays until another cable has
// its port, because it may return without having been repaired.
func (m *Monitor) forget(now time.Time, all []Cable) {
	m.order = slices.DeleteFunc(m.order, func(c Cable) bool {
		_, stays := slices.BinarySearchFunc(all, c, Compare)
		if w := m.cables[c]; !stays && w.State == Isolated && !slices.ContainsFunc(all, func(x Cable) bool { return x.Leaf == c.Leaf }) {
			w.Clean, stays = now, true
		}
		if !stays {
			delete(m.cables, c)
		}
		return !stays
	})
}

// judge lists the thresholds that a cable exceeds.
func (m *Monitor) judge(w *watched) []string {
	var why []string
	var short, long [2]Rates
	for i := range w.ends {
		short[i], long[i] = w.ends[i].rates(m.set.Short), w.ends[i].rates(m.set.Long)
	}
	for i, name := range []string{"the leaf's end", "the spine's end"} {
		s, l, other := &short[i], &long[i], &short[1-i]
		over := func(window time.Duration, format string, args ...any) {
			why = append(why, fmt.Sprintf("%s: "+format+" within %s", append(append([]any{name}, args...), window)...))
		}
		bits := w.gbps * 1e9
		if most := bits * m.set.Short.Seconds() * m.set.ShortBER; float64(s.Symbols) > most {
			over(m.set.Short, "%d symbol errors, %.3g allowed", s.Symbols, most)
		} else if most := bits * m.set.Long.Seconds() * m.set.LongBER; float64(l.Symbols) > most {
			over(m.set.Long, "%d symbol errors, %.3g allowed", l.Symbols, most)
		}
		// Packets that an end receives with errors were sent by the other end.
		if most := float64(other.Sent) * maxDrops; s.Received > 0 && float64(s.Received) > most {
			over(m.set.Short, "%d packets received with errors, of %d sent", s.Received, other.Sent)
		}
		for _, t := range []struct {
			n    uint64
			most int
			what string
		}{
			{s.Recoveries, maxRecoveries, "link recoveries"}, {s.Integrity, 0, "local integrity errors"},
			{s.Overruns, 0, "buffer overruns"}, {s.Discards, maxDiscards, "packets discarded"},
		} {
			if t.n > uint64(t.most) {
				over(m.set.Short, "%d %s, %d allowed", t.n, t.what, t.most)
			}
		}
	}
	if n := min(short[0].Downed, short[1].Downed); n > 0 {
		why = append(why, fmt.Sprintf("both ends: the link went down %d times, 0 allowed within %s", n, m.set.Short))
	}
	if n := len(w.downs); n > m.set.Flaps {
		why = append(why, fmt.Sprintf("it has gone down %d times, %d allowed within %s", n, m.set.Flaps, m.set.Long))
	}
	if w.slow != "" {
		why = append(why, w.slow)
	}
	w.counted = len(why)
	if t := w.timed; m.set.Slow > 0 && t != nil && t.Slow && t.Slowdown > m.set.Slow {
		why = append(why, fmt.Sprintf("its transfers took %.1f ± %.1f %% longer than others, %.3g %% allowed", 100*t.Slowdown, 100*t.Error, 100*m.set.Slow))
	}
	return why
}

// tested takes an isolated cable back once it has been without errors for its test time.
func (m *Monitor) tested(now time.Time, c Cable, w *watched) {
	w.Returns = slices.DeleteFunc(w.Returns, func(t time.Time) bool { return now.Sub(t) > returnsWithin })
	test := m.set.Test << min(len(w.Returns), 10)
	if w.up && len(w.Returns) < maxReturns && !now.Before(w.Clean.Add(test)) {
		w.Returns = append(w.Returns, now)
		m.takeBack(now, c, w, "")
	}
}

// decide moves a cable in the plan to the state for its verdict.
func (m *Monitor) decide(now time.Time, c Cable, w *watched) {
	switch {
	case w.State == Isolated:
	case len(w.verdict) > 0:
		m.ill(now, c, w)
	case w.State == Suspect, w.State == Probation && !now.Before(w.Since.Add(m.set.Probation)):
		w.told = ""
		m.change(now, w, Changed{Cable: c, To: Good})
	}
}

// takeBack puts an isolated cable on probation and clears its counts.
func (m *Monitor) takeBack(now time.Time, c Cable, w *watched, because string) {
	w.begin()
	w.verdict = nil
	m.change(now, w, Changed{Cable: c, To: Probation, Why: w.Why, Because: because})
}

// begin drops the cable's counts.
func (w *watched) begin() {
	for i := range w.ends {
		if h := &w.ends[i]; len(h.sums) > 1 { // the newest reading stays
			h.sums = append(h.sums[:0], h.sums[len(h.sums)-1])
		}
	}
	w.downs, w.timed = nil, nil
}

// ill reports a faulty cable, and requests the cost of isolating it.
func (m *Monitor) ill(now time.Time, c Cable, w *watched) {
	if w.State == Good {
		m.change(now, w, Changed{Cable: c, To: Suspect, Why: w.verdict})
	}
	if m.set.Mode != Isolate || w.asked || !w.up || w.counted == 0 && !m.set.IsolateSlow { // a cable that is down is out of the plan
		return
	}
	if because := m.cap(c); because != "" {
		m.refuse(c, w, because)
		return
	}
	m.weigh(c, w)
}

// weigh asks for the cost of isolating a cable, once.
func (m *Monitor) weigh(c Cable, w *watched) {
	if !w.asked {
		w.asked = true
		m.out = append(m.out, Weigh{c})
	}
}

// weighed isolates a cable with a known cost, or reports why it stays. An isolated one that is needed
// comes back.
func (m *Monitor) weighed(now time.Time, e Weighed) {
	w := m.cables[e.Cable]
	if w == nil || !w.asked {
		return
	}
	w.asked = false
	because := e.Refuse
	if because == "" {
		because = m.cap(e.Cable) // others may have been isolated in the meantime
	}
	switch {
	case w.State == Isolated && e.Needed:
		m.takeBack(now, e.Cable, w, because)
	case len(w.verdict) == 0 || w.State == Isolated || !w.up:
	case because != "":
		m.refuse(e.Cable, w, because)
	default:
		w.Clean, w.Why, w.told = m.read, w.verdict, ""
		m.change(now, w, Changed{Cable: e.Cable, To: Isolated, Why: w.verdict, Phases: e.Phases})
	}
}

// refuse reports, once, that a cable stays in the plan.
func (m *Monitor) refuse(c Cable, w *watched, because string) {
	if w.told != because {
		w.told = because
		m.out = append(m.out, Refused{c, w.verdict, because})
	}
}

// cap explains why no further cable may be isolated at a cable's leaf, or in total.
func (m *Monitor) cap(c Cable) string {
	leaf, all := 0, 0
	for other, w := range m.cables {
		if w.State == Isolated {
			all++
			if other.Leaf.GUID == c.Leaf.GUID {
				leaf++
			}
		}
	}
	most := m.set.InAll
	if most == 0 {
		most = max(10, len(m.order)/200)
	}
	switch {
	case leaf >= m.set.PerLeaf:
		return fmt.Sprintf("%d cables of its leaf are isolated already, and at most %d may be", leaf, m.set.PerLeaf)
	case all >= most:
		return fmt.Sprintf("%d cables are isolated already, and at most %d may be", all, most)
	}
	return ""
}

// change sets the state of a cable.
func (m *Monitor) change(now time.Time, w *watched, a Changed) {
	a.From, a.At = w.State, now
	w.State, w.Since = a.To, now
	m.out = append(m.out, a)
}

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
