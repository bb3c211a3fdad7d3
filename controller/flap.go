package controller

import (
	"slices"
	"time"
)

// flaps tracks cables that fail repeatedly. A cable that was lost Flaps times within FlapWindow
// is held back when it returns, for HoldDown at first and for twice as long after each further
// loss.
type flaps struct {
	seen map[Lane]*flap
	down []Lane // lanes down in the fabric last observed, ascending
}

type flap struct {
	losses []time.Time // within the window, oldest first
	holds  int         // times it has been held
	until  time.Time   // zero when not held
}

// observe compares the lanes down now with those down before.
func (f *flaps) observe(now time.Time, down []Lane, s Settings) {
	lost, back := minus(down, f.down), minus(f.down, down)
	f.forget(now, s)
	f.down = down
	for _, l := range lost {
		c := f.seen[l]
		if c == nil {
			c = &flap{}
			f.seen[l] = c
		}
		c.losses = append(c.losses, now)
	}
	for _, l := range back {
		c := f.seen[l]
		if c == nil || len(c.losses) < s.Flaps && c.until.IsZero() {
			continue
		}
		hold := s.HoldDownMax
		if c.holds < 20 {
			hold = min(hold, s.HoldDown<<c.holds)
		}
		c.holds++
		c.until = now.Add(hold)
	}
}

// forget drops the losses outside the window, and cables without losses. A cable that is down
// keeps its losses: the time that it is down does not count.
func (f *flaps) forget(now time.Time, s Settings) {
	for l, c := range f.seen {
		if f.isDown(l) {
			continue
		}
		c.losses = slices.DeleteFunc(c.losses, func(t time.Time) bool { return now.Sub(t) > s.FlapWindow })
		if len(c.losses) == 0 && c.until.IsZero() {
			delete(f.seen, l)
		}
	}
}

// isDown reports whether the lane is down anyway.
func (f *flaps) isDown(l Lane) bool {
	_, down := slices.BinarySearchFunc(f.down, l, Compare)
	return down
}

// held lists the lanes that are up but held back, ascending.
func (f *flaps) held() []Lane {
	var out []Lane
	for l, c := range f.seen {
		if !c.until.IsZero() && !f.isDown(l) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, Compare)
	return out
}

// expire ends the holds that are over, and reports whether one of them was of a lane that is
// up.
func (f *flaps) expire(now time.Time) bool {
	ended := false
	for l, c := range f.seen {
		if c.until.IsZero() || now.Before(c.until) {
			continue
		}
		ended = ended || !f.isDown(l)
		c.until = time.Time{}
	}
	return ended
}

// next returns the end of the next hold, or zero.
func (f *flaps) next() time.Time {
	var t time.Time
	for _, c := range f.seen {
		if !c.until.IsZero() && (t.IsZero() || c.until.Before(t)) {
			t = c.until
		}
	}
	return t
}
