package linkstate

import "time"

// look is the discovery of the fabric by forsd itself. A planned one serves all requests
// until it starts, as one after a sweep if any of them needs that.
type look struct {
	under   bool      // one is under way: an answer is due
	again   bool      // another one is to follow
	swept   bool      // and that counts as one after a sweep
	due     time.Time // the next one of those that come regularly
	ordered time.Time // the one after the sweep that was ordered last; zero if none
}

// wake is when a discovery is due; zero for never, or while one is under way.
func (k *look) wake() time.Time {
	if k.under {
		return k.ordered
	}
	return earlier(k.ordered, k.due)
}

// earlier returns the earlier of two times, zero being never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// discover has the fabric discovered, where that is not left to the manager next door.
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

// discoverDue discovers the fabric when it is time: now and then, and when a sweep that
// was ordered should be over.
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
