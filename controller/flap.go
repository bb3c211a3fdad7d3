package controller

import (
	"slices"
	"time"
)

// flaps remembers which cables keep going down. A cable that was lost Flaps
// times within FlapWindow is held back when it returns, for HoldDown at first
// and twice as long after each further loss.
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
	f.down = down
	for _, l := range lost {
		c := f.seen[l]
		if c == nil {
			c = &flap{}
			f.seen[l] = c
		}
		c.losses = slices.DeleteFunc(c.losses, func(t time.Time) bool { return now.Sub(t) > s.FlapWindow })
		if len(c.losses) == 0 && c.until.IsZero() {
			c.holds = 0
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

// held lists the lanes held back now, ascending.
func (f *flaps) held() []Lane {
	var out []Lane
	for l, c := range f.seen {
		if !c.until.IsZero() {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, compareLanes)
	return out
}

// expire ends the holds that are over, and tells whether one did.
func (f *flaps) expire(now time.Time) bool {
	ended := false
	for l, c := range f.seen {
		if c.until.IsZero() || now.Before(c.until) {
			continue
		}
		if _, isDown := slices.BinarySearchFunc(f.down, l, compareLanes); !isDown {
			ended = true
		}
		c.until = time.Time{}
	}
	return ended
}

// next is when the next hold ends, zero when none is on.
func (f *flaps) next() time.Time {
	var t time.Time
	for _, c := range f.seen {
		if !c.until.IsZero() && (t.IsZero() || c.until.Before(t)) {
			t = c.until
		}
	}
	return t
}
