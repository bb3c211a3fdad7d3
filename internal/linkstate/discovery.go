package linkstate

import "time"

// look schedules forsd's own discoveries of the fabric. A planned discovery serves all
// requests made before it starts, and counts as one after a sweep if any of them requires
// that.
type look struct {
	under   bool      // a discovery is under way, and its response is due
	again   bool      // another one follows
	swept   bool      // the discovery that follows counts as one after a sweep
	due     time.Time // when the next regular discovery starts
	ordered time.Time // when the discovery after the last ordered sweep starts; zero if none
}

// wake returns when a discovery is due; zero means never. While one is under way, only the
// one after an ordered sweep counts.
func (k *look) wake() time.Time {
	if k.under {
		return k.ordered
	}
	return earlier(k.ordered, k.due)
}

// earlier returns the earlier of two times. A zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// discover requests a discovery of the fabric, unless the local manager shows the fabric.
func (l *Links) discover(swept bool) {
	k := &l.look
	switch {
	case l.set.DiscoverEvery == 0:
	case k.under:
		k.again, k.swept = true, k.swept || swept
	default:
		k.under = true
		l.do(Discover{Swept: swept})
	}
}

// looked records that the discovery under way is over, with or without success. A fabric
// that the manager is bringing up is discovered again soon, because its completion is not
// announced.
func (l *Links) looked(now time.Time, unfinished bool) {
	k := &l.look
	again, swept := k.again, k.swept
	k.under, k.again, k.swept = false, false, false
	k.due = now.Add(l.set.DiscoverEvery)
	if unfinished {
		k.due = now.Add(min(l.set.DiscoverEvery, SweepDelay))
	}
	if again {
		l.discover(swept)
	}
}

// discoverDue starts a discovery when it is due: at regular intervals, and when an
// ordered sweep should be over.
func (l *Links) discoverDue(now time.Time) {
	k := &l.look
	if !k.ordered.IsZero() && !now.Before(k.ordered) {
		k.ordered = time.Time{}
		l.discover(true)
	}
	if !k.under && !now.Before(k.due) {
		l.discover(true)
	}
}
