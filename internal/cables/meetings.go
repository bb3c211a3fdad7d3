package cables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// direction is a cable of a lane in one direction: up is from the leaf to the spine.
type direction struct {
	Leaf, Lane int
	Up         bool
}

// uses maps links to the phases in which a plan uses them.
type uses struct {
	Phases int
	of     map[direction][]int32 // ascending
}

// usesOf derives the uses from a plan.
func usesOf(plan *phasetable.View) *uses {
	u := &uses{Phases: plan.Phases(), of: map[direction][]int32{}}
	leaf := make([]int, plan.Servers())
	for s := range leaf {
		leaf[s] = plan.Server(s).Leaf
	}
	for p := range u.Phases {
		for s := range leaf {
			x := plan.At(s, p)
			if x.SendTo < 0 || x.Lane < 0 || leaf[s] == leaf[x.SendTo] {
				continue
			}
			for _, l := range []direction{{leaf[s], x.Lane, true}, {leaf[x.SendTo], x.Lane, false}} {
				u.of[l] = append(u.of[l], int32(p))
			}
		}
	}
	return u
}

// sample has the counts of the sending end of a link over a period.
type sample struct {
	direction
	Data uint64 // in words of 4 bytes
	Wait uint64 // ticks in which data waited
}

// The thresholds: at a conspicuous end, data has waited for maxWait of the time in which there
// was data to send (ticks, as a share of ticks and words). The length of a tick differs from
// switch to switch, so the end must also have waited times as much as the median of the planned
// ends.
const (
	maxWait = 0.1
	times   = 4
)

// least is the number of words on the median link while an exchange runs.
const least = 1 << 20

// The shares of a link's part of an exchange above which the link counts as in use, and as
// carrying additional traffic.
const (
	running = 0.5
	foreign = 1.25
)

// meeting is a link on which transfers have met.
type meeting struct {
	direction
	Waited   float64 // share of the time in which it had data to send
	Others   float64 // the same for the median planned link
	Share    float64 // bytes sent, as a share of the exchange's
	Foreign  uint64  // additional bytes, or 0
	Used     int     // phases that use it
	Together []int32 // phases that use all such links, if that distinguishes them from others
}

// meetings lists the links on which transfers have met that the plan keeps apart: while an
// exchange runs, data hardly waits at the cables that the plan uses. They are ordered by leaf,
// lane and direction.
// everywhere is the share of the time that the median link has waited, if it is too large: then
// the traffic does not follow the plan. Both are empty unless an exchange runs over all of the
// planned links.
func meetings(u *uses, samples []sample) (met []meeting, everywhere float64) {
	var planned []sample
	var units, waits []float64
	for _, s := range samples {
		if n := len(u.of[s.direction]); n > 0 {
			planned = append(planned, s)
			units, waits = append(units, float64(s.Data)/float64(n)), append(waits, waited(&s))
		}
	}
	if len(planned) == 0 {
		return nil, 0
	}
	unit, wait := median(units), median(waits)
	carry := 0
	for i := range planned {
		if units[i] >= running*unit && planned[i].Data >= least/2 {
			carry++
		}
	}
	if 4*carry < 3*len(planned) {
		return nil, 0
	}
	if wait >= maxWait {
		return nil, wait
	}
	for _, s := range planned {
		w := waited(&s)
		if w < maxWait || w < times*wait {
			continue
		}
		n := len(u.of[s.direction])
		m := meeting{direction: s.direction, Waited: w, Others: wait, Used: n, Share: float64(s.Data) / (unit * float64(n))}
		if m.Share >= foreign {
			m.Foreign = 4 * (s.Data - uint64(unit*float64(n)))
		}
		met = append(met, m)
	}
	slices.SortFunc(met, func(a, b meeting) int { return compare(a.direction, b.direction) })
	u.pattern(met)
	return met, 0
}

// pattern records the phases that use all links with only the exchange's own traffic, if these
// are few compared with the phases of each link.
func (u *uses) pattern(met []meeting) {
	var own []*meeting
	for i := range met {
		if met[i].Foreign == 0 {
			own = append(own, &met[i])
		}
	}
	if len(own) < 2 {
		return
	}
	together := slices.Clone(u.of[own[0].direction])
	fewest := own[0].Used
	for _, m := range own[1:] {
		together = slices.DeleteFunc(together, func(p int32) bool { _, is := slices.BinarySearch(u.of[m.direction], p); return !is })
		fewest = min(fewest, m.Used)
	}
	if len(together) == 0 || 2*len(together) > fewest {
		return
	}
	for _, m := range own {
		m.Together = together
	}
}

// waited returns the waiting time of an end as a share of the time in which it had data to
// send.
func waited(s *sample) float64 {
	if s.Wait == 0 {
		return 0
	}
	return float64(s.Wait) / float64(s.Wait+s.Data)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func compare(a, b direction) int {
	if c := cmp.Or(a.Leaf-b.Leaf, a.Lane-b.Lane); c != 0 || a.Up == b.Up {
		return c
	}
	if a.Up {
		return -1
	}
	return 1
}

// mostNamed is the maximum number of phases that are named.
const mostNamed = 8

// Text describes a meeting in words. The caller names the link by its two ends.
func (m *meeting) Text(from, to string) string {
	text := fmt.Sprintf("%s to %s: data waited for %.0f %% of the time, and for %.1f %% at the planned cables in the middle", from, to, 100*m.Waited, 100*m.Others)
	switch {
	case m.Foreign > 0:
		text += fmt.Sprintf("; it has sent %.1f times its part of the exchange, so other traffic of some %d MB was there", m.Share, m.Foreign>>20)
	case len(m.Together) > 0:
		var names []string
		for _, p := range m.Together[:min(mostNamed, len(m.Together))] {
			names = append(names, fmt.Sprint(p))
		}
		if more := len(m.Together) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		text += "; it has sent its part of the exchange and no more; all such cables are used in phases " + strings.Join(names, ", ")
	default:
		text += fmt.Sprintf("; it has sent its part of the exchange and no more, in %d phases: ranks are in different phases, or run another plan", m.Used)
	}
	return text
}

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
