package fors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrNoOwnLanes is returned by OwnLanes if the free lanes would slow the job down.
var ErrNoOwnLanes = errors.New("the lanes that no other job holds are not enough")

// mostExchanges limits the lanes tried in place of others in one choice.
const mostExchanges = 1 << 9

// Offer is the lanes available to a job.
type Offer struct {
	*Tree              // its slots are the job's; up are the lanes that no other job holds
	Alive     [][]bool // [leaf][lane] up, whether held or not
	Rest      []int    // [leaf] hosts outside the job and without lanes of their own
	Elsewhere []int    // [lane] leaves without servers of the job at which it is free
}

// OwnLimit returns the most phases allowed for a plan on a job's own lanes, 5 % more than
// the phases on all lanes that are up.
func OwnLimit(phases int) int { return phases + phases/20 }

// OwnLanes chooses lanes for the exclusive use of a job, [leaf][lane]. The job's pinned
// plan then has at most OwnLimit of the phases that all lanes that are up need. Its plan
// for one LID has at most that limit of P−1, or of the bound on the free lanes if that is
// more. As a rule that takes a lane for each server of a leaf. A leaf that lacks lanes
// gives fewer, so that hosts outside the job find some, but not fewer than counting allows.
// If leaves hardly meet, lanes are exchanged, and then more are taken: first a lane for
// each server, then two of those that other hosts need.
//
// Lanes that are free at most of the job's leaves come first, so that leaves meet; among
// these, lanes that are free at few other leaves, so that the remaining ones are free at
// many, for later jobs.
//
// Before more of other hosts' lanes are taken, a plan for one LID may have a quarter more
// phases than all lanes that are up need. If even all free lanes do not suffice, OwnLanes
// fails with ErrNoOwnLanes.
func OwnLanes(ctx context.Context, offer Offer) ([][]bool, error) {
	o, err := newOwner(offer)
	if err != nil {
		return nil, err
	}
	for _, a := range []struct {
		each   bool // a lane for each of the job's servers takes precedence over other hosts
		beyond int  // additional lanes that may be taken of those that other hosts of a leaf need
		oneLID int  // the most phases of a plan for one LID
	}{{false, 0, o.oneLID}, {true, 2, o.oneLID}, {false, 0, o.longest}, {true, o.Lanes, o.longest}} {
		for extra := 0; ; extra = max(1, 2*extra) {
			own, whole := o.reserve(extra, a.each, a.beyond)
			if a.beyond == 0 {
				o.exchange(own, a.oneLID)
			}
			ok, err := o.enough(ctx, own, a.oneLID)
			if ok || err != nil {
				return o.reduced(ctx, own, a.oneLID, err)
			}
			if whole {
				break
			}
		}
	}
	return nil, ErrNoOwnLanes
}

// owner chooses lanes for a job.
type owner struct {
	Offer
	limit   int      // phases of a plan by lanes
	oneLID  int      // phases of a plan for one LID a server
	longest int      // limit of oneLID
	want    []int    // [leaf] number of lanes
	order   [][]Lane // [leaf] the free lanes, the best first
}

func newOwner(offer Offer) (*owner, error) {
	o := &owner{Offer: offer}
	alive := o.on(o.Alive)
	least, _, err := LeastOneLID(alive)
	if err != nil {
		return nil, err
	}
	free, _, err := LeastOneLID(o.on(o.Up))
	if err != nil {
		return nil, err
	}
	o.limit = OwnLimit(ComputeBounds(alive).LowerBound)
	o.oneLID, o.longest = max(OwnLimit(o.Servers()-1), free), OwnLimit(least)+OwnLimit(least)/5
	if o.oneLID > o.longest {
		return nil, ErrNoOwnLanes
	}
	for leaf := range o.Slots {
		o.order = append(o.order, o.ordered(leaf))
		o.want = append(o.want, min(len(o.order[leaf]), max(o.fewest(leaf), min(len(o.Slots[leaf]), len(o.order[leaf])-o.Rest[leaf]))))
	}
	return o, nil
}

// fewest returns the fewest lanes at a leaf for which counting allows short enough plans:
// for a pinned plan, and for one LID for the transfers out and those in from leaves with
// the given number of servers or more.
func (o *owner) fewest(leaf int) int {
	n, others := len(o.Slots[leaf]), o.Servers()-len(o.Slots[leaf])
	if n == 0 || others == 0 {
		return 0
	}
	lanes := max(ceilDiv(n*others, o.limit), ceilDiv(others, o.oneLID/n))
	for _, from := range o.Slots {
		units := 0
		for A, slots := range o.Slots {
			if A != leaf && len(slots) >= len(from) {
				units += n
			}
		}
		if len(from) > 0 && units > 0 {
			lanes = max(lanes, ceilDiv(units, o.oneLID/len(from)))
		}
	}
	return lanes
}

// on returns the job's tree restricted to some lanes.
func (o *owner) on(lanes [][]bool) *Tree {
	return &Tree{Lanes: o.Lanes, Slots: o.Slots, Up: lanes}
}

// ordered lists the lanes of a leaf with servers of the job, the best first.
func (o *owner) ordered(leaf int) (lanes []Lane) {
	if len(o.Slots[leaf]) == 0 {
		return nil
	}
	meets := make([]int, o.Lanes) // [lane] servers of the job at whose leaf it is free
	for k, up := range o.Up[leaf] {
		if !up {
			continue
		}
		lanes = append(lanes, Lane(k))
		for B, slots := range o.Slots {
			if o.Up[B][k] {
				meets[k] += len(slots)
			}
		}
	}
	slices.SortFunc(lanes, func(a, b Lane) int {
		return cmp.Or(meets[b]-meets[a], o.Elsewhere[a]-o.Elsewhere[b], int(a-b))
	})
	return lanes
}

// reserve takes extra more lanes than wanted at each leaf, and reports whether that is all
// that it may take.
func (o *owner) reserve(extra int, each bool, beyond int) (own [][]bool, whole bool) {
	whole = true
	for leaf, lanes := range o.order {
		most := max(o.want[leaf], len(lanes)-o.Rest[leaf])
		if each {
			most = max(most, len(o.Slots[leaf]))
		}
		most = min(len(lanes), most+beyond)
		own = append(own, o.first(leaf, min(most, o.want[leaf]+extra)))
		whole = whole && o.want[leaf]+extra >= most
	}
	return own, whole
}

// first returns the first n lanes of a leaf.
func (o *owner) first(leaf, n int) []bool {
	own := make([]bool, o.Lanes)
	for _, k := range o.order[leaf][:min(n, len(o.order[leaf]))] {
		own[k] = true
	}
	return own
}

// exchange replaces lanes by other free ones, one for one, while links have too many
// transfers for one LID and that reduces them.
func (o *owner) exchange(own [][]bool, oneLID int) {
	t := o.on(own)
	over := overOneLID(t, oneLID)
	for tries, before := 0, over+1; 0 < over && over < before && tries < mostExchanges; {
		before = over
		for leaf, lanes := range o.order {
			for i := 0; i < len(lanes)*len(lanes) && over == before && tries < mostExchanges; i++ {
				give, take := lanes[i%len(lanes)], lanes[len(lanes)-1-i/len(lanes)]
				if !own[leaf][give] || own[leaf][take] {
					continue
				}
				tries++
				own[leaf][give], own[leaf][take] = false, true
				if now := overOneLID(t, oneLID); now < over {
					over = now
				} else {
					own[leaf][give], own[leaf][take] = true, false
				}
			}
		}
	}
}

// enough reports whether plans on some lanes are short enough.
func (o *owner) enough(ctx context.Context, own [][]bool, oneLID int) (bool, error) {
	t := o.on(own)
	for A, slots := range t.Slots {
		for B := range A {
			if len(slots) > 0 && len(t.Slots[B]) > 0 && commonLanes(own[A], own[B]) == 0 {
				return false, nil
			}
		}
	}
	if ComputeBounds(t).LowerBound > o.limit {
		return false, nil
	}
	if least, _, err := LeastOneLID(t); least > oneLID || err != nil {
		return false, err
	}
	p, err := PlanOneLID(ctx, t, Wish{})
	if err != nil {
		return false, fmt.Errorf("choose lanes for a job: %w", err)
	}
	if p.Phases > oneLID || p.Phases <= o.limit {
		return p.Phases <= oneLID, nil
	}
	exact, err := PlanExact(ctx, t)
	if err != nil {
		return false, fmt.Errorf("choose lanes for a job: %w", err)
	}
	return exact.Phases <= o.limit, nil
}

// reduced returns lanes beyond those wanted if that does no harm.
func (o *owner) reduced(ctx context.Context, own [][]bool, oneLID int, err error) ([][]bool, error) {
	for leaf := range own {
		if err != nil {
			return nil, err
		}
		less := slices.Clone(own)
		if less[leaf] = o.first(leaf, o.want[leaf]); slices.Equal(less[leaf], own[leaf]) {
			continue
		}
		var ok bool
		if ok, err = o.enough(ctx, less, oneLID); ok {
			own = less
		}
	}
	return own, err
}
