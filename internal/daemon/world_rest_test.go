package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/topology"
)

// fabricWarnings tell of the fabric as it is.
var fabricWarnings = []string{topology.CableDown, topology.CableDegraded, topology.SpineDown, topology.LeafDown, topology.HostAbsent, topology.LeafBinds, topology.FewSpineCables,
	exclusions.DrainedWarning, "plan-over-bound", "base-plan-over-bound", "base-lids-crowded", "job-hosts-missing", "job-degraded", "job-shares-lanes", "unreachable-pairs", "lmc-too-small", "no-base-plan", "engine-fallback", "state-damaged",
	cables.Suspect, cables.Isolated, cables.NotIsolated, controller.CableHeld, config.Refused, pluginUnused}

// resting reports whether forsd is at rest, perhaps on a broken disk, or why not.
func (w *world) resting(broken bool) string {
	lead := w.leader()
	if lead == nil {
		return "no forsd leads alone"
	}
	w.side = lead
	p := w.forsd
	switch {
	case p == nil:
		return "forsd does not run"
	case w.changes > 0:
		return "cables still bounce"
	case slices.ContainsFunc(w.sides, func(s *side) bool { return s.manager.underWay > 0 }):
		return "messages of the plugin are under way"
	case w.manager.pid == 0 || w.manager.sweeping || w.manager.again:
		return "OpenSM is not at rest"
	case !w.manager.current():
		return "OpenSM has not seen the fabric"
	case !w.manager.shown:
		return "forsd has not found OpenSM's dump"
	case p.d.core.State() != controller.Idle || p.busy > 0 || len(p.d.waiting) > 0:
		return "forsd works: " + p.d.core.State().String()
	}
	for _, o := range w.orders {
		if !o.done {
			return "an order is not carried out: " + o.what
		}
	}
	for _, warning := range p.d.health.List(time.Now()) {
		if !slices.Contains(fabricWarnings, warning.Code) && (!broken || warning.Code != state.StateNotDurable) {
			return fmt.Sprintf("%s: %s", warning.Code, warning.Text)
		}
	}
	plan := p.d.state.Plans.Current()
	if plan == nil {
		return "there is no plan"
	}
	if err := w.reaches(); err != nil {
		return err.Error()
	}
	if err := w.complete(plan, w.drainedLeaves()); err != nil {
		return err.Error()
	}
	for _, err := range []error{w.avoids(), w.judgeLeases(), w.copied(), w.noticed(plan)} {
		if err != nil {
			return err.Error()
		}
	}
	return ""
}

// noticed checks that forsd knows the tables, which OpenSM may have made by itself, and that the
// plan holds on them.
func (w *world) noticed(plan *published.Plan) error {
	if !w.spoilt {
		return nil
	}
	if err := w.believed(); err != nil {
		return err
	}
	w.forsd.blind, w.judge.read = false, 0
	return w.walk("OpenSM's tables are in the switches", plan)
}

// copied checks that the forsd that follows has what the one that leads has.
func (w *world) copied() error {
	lead := w.forsd.d.state.Now()
	for _, s := range w.sides {
		if s == w.side {
			continue
		}
		if s.forsd == nil {
			return errors.New("the other forsd does not run")
		}
		if s.forsd.d.standby.Role() == standby.Leads {
			return errors.New("two forsd lead")
		}
		now := s.forsd.d.state.Now()
		if now.EpochNumber() != lead.EpochNumber() || len(now.Jobs) != len(lead.Jobs) || len(now.Drains) != len(lead.Drains) {
			return fmt.Errorf("the other forsd has epoch %d, %d jobs and %d drains, and this one %d, %d and %d", now.EpochNumber(), len(now.Jobs), len(now.Drains), lead.EpochNumber(), len(lead.Jobs), len(lead.Drains))
		}
	}
	return nil
}

// drainedLeaves lists the leaves that are drained.
func (w *world) drainedLeaves() map[int]bool {
	out := map[int]bool{}
	for _, part := range w.ordered {
		if part.Kind == exclusions.Leaf {
			out[int(w.plant.whole.Find(part.GUID))] = true
		}
	}
	return out
}

// rest waits until forsd is at rest.
func (w *world) rest() {
	w.each(w.mendDisks)
	w.calm(false)
}

// endure waits until forsd is at rest, whatever the disks of the state directories do.
func (w *world) endure(*rand.Rand) {
	w.each(func() {
		if w.tables.fault != "" {
			w.spoilTables(nil)
		}
	})
	w.calm(slices.ContainsFunc(w.sides, func(s *side) bool { return s.disk.fault != "" }))
}

// mostWork is how many actions forsd may carry out until it is at rest.
const mostWork = 1000

// calm lets nothing happen until forsd is at rest.
func (w *world) calm(broken bool) {
	w.lossy, w.apart = 0, false
	w.each(func() {
		w.failAt, w.crashAt = nil, 0
		w.stalled, w.manager.lag = time.Time{}, 0
		if w.wire != nil {
			w.wire.loses = 0
		}
	})
	began, checked, why, work := time.Now(), time.Time{}, "", w.work
	w.pass(began.Add(worldPatience), func() bool {
		now := time.Now()
		if now.Sub(checked) < 250*time.Millisecond {
			return false
		}
		checked = now
		if w.work-work > mostWork {
			w.fail("forsd works on and on: %d actions in %v", w.work-work, time.Since(began))
		}
		why = w.resting(broken)
		return why == ""
	})
	if w.failure == "" && why != "" {
		w.fail("not at rest after %v: %s", worldPatience, why)
		return
	}
	if w.failure != "" {
		return
	}
	w.side = w.leader()
	w.spoilt, w.forsd.blind = false, false
	for i := range w.plant.nodes {
		w.plant.nodes[i].mended, w.plant.nodes[i].strays = nil, nil
	}
	clear(w.judge.died)
	w.judge.read = 0
	w.note("at rest after %v, plan %d", time.Since(began), w.forsd.d.state.Now().EpochNumber())
	w.judgePlan("all is at rest", w.forsd.d.state.Plans.Current())
	for _, way := range w.judge.ways {
		for _, r := range way {
			if c := w.plant.cableAt(int(r.Node), int(r.Port)); w.plant.cables[c].slow {
				w.fail("at rest the plan uses %s, which is slow", w.name(c))
				return
			}
		}
	}
	for _, err := range []error{w.judgeIsolated(), w.short()} {
		if err != nil {
			w.fail("at rest %v", err)
		}
	}
	w.judgeOthers()
}

// heal repairs the fabric and ends all drains and jobs.
func (w *world) heal() {
	p := w.plant
	w.change("all is repaired", func() {
		for i := range p.nodes {
			if p.nodes[i].off {
				if p.nodes[i].off = false; p.nodes[i].isSwitch {
					p.nodes[i].blank, p.nodes[i].table = true, p.empty()
				}
			}
		}
		for c := range p.cables {
			x := &p.cables[c]
			x.errors = p.errors(c)
			x.pulled, x.slow, x.perSecond = false, false, 0
		}
	})
	w.each(func() {
		if w.forsd == nil {
			w.start()
		}
		if w.manager.pid == 0 {
			w.manager.start()
		}
	})
	w.rest()
	if w.failure != "" {
		return
	}
	for _, part := range slices.Clone(w.ordered) {
		w.giveBack(part)
	}
	for range w.forsd.d.state.Now().Jobs {
		w.endJob(nil)
		w.pass(time.Now().Add(100*time.Millisecond), nil)
	}
	if slices.ContainsFunc(w.plant.cables, func(c cable) bool { return c.bad }) {
		w.pass(time.Now().Add(3*time.Minute), nil) // errors are forgotten by then
	}
	for range 12 {
		held := w.isolated()
		for _, c := range held {
			x := w.plant.cables[c].a
			w.operator("release "+w.name(c), func(ctx context.Context, d *Daemon) error {
				return d.inbox.ReleaseCable(ctx, fmt.Sprintf("%s/%d", w.plant.whole.Nodes[x.Node].Name, x.Port))
			})
		}
		if len(held)+len(w.bouncing()) > 0 {
			w.pass(time.Now().Add(10*time.Second), nil)
		}
	}
	w.each(func() { w.reread(0) })
	w.reroute(nil) // a rollback's plan stays otherwise
	w.rest()
	if w.failure != "" {
		return
	}
	var left []string
	for _, x := range w.forsd.d.health.List(time.Now()) {
		if !strings.HasPrefix(x.Code, "job-") && x.Code != "state-damaged" && x.Code != cables.Suspect {
			left = append(left, x.Code+": "+x.Text)
		}
	}
	if left != nil {
		w.fail("all is well, and there are warnings: %s", strings.Join(left, "; "))
	}
	if n, want := w.forsd.d.state.Plans.Current().Table.Phases(), w.phases; n > want {
		w.fail("all is well, and the plan has %d phases instead of %d", n, want)
	}
}

// avoids checks that what was asked for is drained, and is safe to pull.
func (w *world) avoids() error {
	for _, d := range w.forsd.d.state.Now().Drains {
		if !slices.Contains(w.ordered, d.Part) {
			return fmt.Errorf("%s is drained, and nobody asked for it", d.Name)
		}
		jobs := func(use string) bool {
			return strings.HasPrefix(use, "job ") && strings.HasSuffix(use, " of its hosts")
		}
		if d.State != exclusions.Safe && (d.Kind != exclusions.Leaf || len(d.Uses) == 0 || !slices.ContainsFunc(d.Uses, jobs)) { // programs of jobs may send until these end
			return fmt.Errorf("%s is %s: %v", d.Name, d.State, d.Uses)
		}
	}
	clear(w.judge.without)
	if got := len(w.forsd.d.state.Now().Drains); got != len(w.ordered) {
		return fmt.Errorf("%d parts are drained, and %d should be", got, len(w.ordered))
	}
	return w.unused(true)
}

// unused checks that nothing leads over what is safe to pull, by forsd's word, not even
// for what does not arrive if all is set.
func (w *world) unused(all bool) error {
	p := w.plant
	safe, without := map[int]bool{}, w.judge.without // hosts of drained leaves have no other ways
	for _, d := range w.forsd.d.state.Now().Drains {
		if d.Kind == exclusions.Leaf {
			without[int(p.whole.Find(d.GUID))] = true
		}
		for c := range p.cables {
			if x := &p.cables[c]; d.State == exclusions.Safe && p.trunk(c) && (w.cablePart(c) == d.Part || d.Kind == exclusions.Spine && (p.guid(int(x.a.Node)) == d.GUID || p.guid(int(x.b.Node)) == d.GUID)) {
				safe[c] = true
			}
		}
	}
	if len(safe) == 0 {
		return nil
	}
	if plan := w.forsd.d.state.Plans.Current(); plan != nil && plan.Epoch != w.judge.read { // its forsd did not lead when it published it
		_ = w.walk("it counts", plan)
	}
	for _, way := range w.judge.ways {
		for _, at := range way {
			if c := p.cableAt(int(at.Node), int(at.Port)); safe[c] && p.carries(c) {
				return fmt.Errorf("%s is safe to pull, and plan %d takes it", w.name(c), w.judge.read)
			}
		}
	}
	for i := range p.nodes {
		if !p.nodes[i].isSwitch || p.nodes[i].off || !w.isLeaf(i) || without[i] {
			continue
		}
		for lid, owner := range p.owner {
			if owner < 0 || p.nodes[owner].isSwitch {
				continue
			}
			if leaf, _ := p.uplink(owner); without[leaf] {
				continue
			}
			ok := false
			w.way, ok = p.route(w.way[:0], i, lid, false)
			for _, at := range w.way {
				if !ok && !all {
					break
				}
				if c := p.cableAt(int(at.Node), int(at.Port)); safe[c] && !w.unheard(i, lid) {
					return fmt.Errorf("%s is safe to pull, and LID %d takes it from %s", w.name(c), lid, p.whole.Nodes[i].Name)
				}
			}
		}
	}
	return nil
}
