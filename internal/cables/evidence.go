package cables

import (
	"fmt"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// PlanCongested is the code of the warning about transfers that meet.
const PlanCongested = "plan-congested"

// traffic holds the last counts of data sent and time waited at each end, while a plan was in
// force.
type traffic struct {
	epoch uint64
	uses  *uses
	ends  map[ib.End]sent
}

// sent holds the counts of an end since its last reset.
type sent struct{ data, wait uint64 }

// since returns the counts after an earlier reading. An end that was reset has counted from 0.
func (s sent) since(before sent) (data, wait uint64) {
	data, wait = s.data, s.wait
	if s.data >= before.data {
		data -= before.data
	}
	if s.wait >= before.wait {
		wait -= before.wait
	}
	return data, wait
}

// Traffic finds transfers that met between two rounds of readings while one plan was in force.
// The plan may be nil.
func (r *Tracker) Traffic(t *topology.FatTree, plan *phasetable.View, read Round) {
	before := r.traffic
	r.traffic = traffic{ends: map[ib.End]sent{}}
	if t == nil || plan == nil {
		r.Health.Set(PlanCongested, nil, time.Now())
		return
	}
	now := &r.traffic
	if now.epoch, now.uses = plan.Epoch(), before.uses; before.uses == nil || before.epoch != now.epoch {
		now.uses = usesOf(plan)
	}
	for end, c := range read.Ports {
		now.ends[end] = sent{c.DataSent, c.Wait}
	}
	if before.epoch != now.epoch {
		return // warnings stay until there are two rounds of this plan
	}
	met, everywhere := meetings(now.uses, now.samples(t, &before))
	var found []health.Finding
	if everywhere > 0 {
		found = append(found, health.Finding{Code: PlanCongested, Text: fmt.Sprintf("data waited for %.0f %% of the time at the planned cables in the middle: what runs does not follow the plan, or its ranks are far apart", 100*everywhere)})
	}
	for i := range met {
		from, to := ends(t, met[i].direction)
		found = append(found, health.Finding{Code: PlanCongested, Text: met[i].Text(from, to)})
	}
	r.Health.Set(PlanCongested, found, time.Now())
}

// samples returns the counts of the ends since the previous round.
func (w *traffic) samples(t *topology.FatTree, before *traffic) []sample {
	var out []sample
	for _, c := range exclusions.Links(t) {
		for i, end := range []ib.End{c.Lower.End, c.Upper.End} {
			last, was := before.ends[end]
			this, is := w.ends[end]
			if was && is {
				data, wait := this.since(last)
				out = append(out, sample{direction: direction{Leaf: c.Lane.Leaf, Lane: c.Lane.Lane, Up: i == 0}, Data: data, Wait: wait})
			}
		}
	}
	return out
}

// ends names the two ends of a link, the sender first.
func ends(t *topology.FatTree, l direction) (from, to string) {
	for _, c := range exclusions.Links(t) {
		if c.Lane == (controller.Lane{Leaf: l.Leaf, Lane: l.Lane}) {
			from, to = fmt.Sprintf("%s port %d", c.Lower.Name, c.Lower.Port), fmt.Sprintf("%s port %d", c.Upper.Name, c.Upper.Port)
		}
	}
	if !l.Up {
		from, to = to, from
	}
	return from, to
}
