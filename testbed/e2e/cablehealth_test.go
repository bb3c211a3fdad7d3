package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	health "github.com/forsd/forsd/internal/cables"
)

// hurried are windows of seconds, for cables in seconds. On 20 Gb/s they allow one symbol
// error within four seconds, and two within eight.
const hurried = `short: 4s, short_ber: 1.3e-11, long: 8s, long_ber: 1.3e-11, test: 30s, probation: 4s, every: 500ms`

// healthOf asks for a cable of a leaf and a lane.
func (x *test) healthOf(leaf, lane int) *api.Cable {
	x.Helper()
	all, err := x.Client.Cables(x.ctx)
	x.ok(err)
	top, err := x.Client.Topology(x.ctx)
	x.ok(err)
	at := slices.IndexFunc(all.Cables, func(c api.Cable) bool { return c.Leaf.GUID == top.Leaves[leaf].GUID && c.Lane == lane })
	if at < 0 {
		x.Fatalf("leaf %d has no lane %d", leaf, lane)
	}
	return &all.Cables[at]
}

// becomes waits until a cable is in a state.
func (x *test) becomes(leaf, lane int, state string) *api.Cable {
	x.Helper()
	ctx, cancel := x.within()
	defer cancel()
	var c *api.Cable
	x.ok(x.Until(ctx, func() error {
		if c = x.healthOf(leaf, lane); c.State != state {
			return fmt.Errorf("leaf %d, lane %d is %s (%v; %s), not %s", leaf, lane, c.State, c.Why, c.Refused, state)
		}
		return nil
	}))
	return c
}

// read waits for another round over the counters.
func (x *test) read() {
	x.Helper()
	ctx, cancel := x.within()
	defer cancel()
	was, err := x.Client.Cables(x.ctx)
	x.ok(err)
	x.ok(x.Until(ctx, func() error {
		now, err := x.Client.Cables(x.ctx)
		if err == nil && (!now.ReadAt.After(was.ReadAt) || now.Unread != "") {
			err = fmt.Errorf("no round after %v: %s", was.ReadAt, now.Unread)
		}
		return err
	}))
}

// count sets a counter of a port.
func (x *test) count(node string, port uint8, field string, n uint64) {
	x.Helper()
	x.ok(x.Sim.SetCounter(x.ctx, node, int(port), field, n))
}

// uses reports whether the plan in force uses a lane of a leaf.
func (x *test) uses(leaf, lane int) bool {
	x.Helper()
	plan, err := x.Client.Table(x.ctx)
	x.ok(err)
	for s := range plan.Servers() {
		for p := range plan.Phases() {
			if e := plan.Row(s).At(p); e.SendTo >= 0 && e.Lane == lane && (plan.Server(s).Leaf == leaf) != (plan.Server(e.SendTo).Leaf == leaf) {
				return true
			}
		}
	}
	return false
}

// TestCableHealth counts more and more errors at a cable of the LHCb fabric: it leaves the
// plan before it fails, without an additional phase, and comes back on probation. Of a storm of
// bad cables at one leaf one is isolated, because a second one would cost phases, or two, the
// most at one leaf, if phases may be added.
func TestCableHealth(t *testing.T) {
	t.Parallel()
	t.Run("files", func(t *testing.T) {
		o := lhcb()
		o.Config = steady + "cables: {mode: isolate, " + hurried + "}\n"
		healthOnSite(t, o, 1, "378 phases instead of 359")
	})
	t.Run("plugin", func(t *testing.T) {
		o := byPlugin(t, lhcb())
		o.Config = steady + "cables: {mode: isolate, max_cost: 30, " + hurried + "}\n"
		healthOnSite(t, o, 2, "2 cables of its leaf are isolated already, and at most 2 may be")
	})
}

func healthOnSite(t *testing.T, o Options, most int, because string) {
	t.Parallel()
	x, healthy := up(t, 5*time.Minute, o)
	x.read()
	x.becomes(7, 3, "good")
	x.worsen(healthy, 7, 3)
	x.storm(healthy, 11, most, because)
	x.noRoutingErrors()
}

// worsen makes one cable count errors until it is out of the plan; then no more.
func (x *test) worsen(healthy *Sight, leaf, lane int) {
	x.Helper()
	at := healthy.Tree.Leaves[leaf]
	port := at.Cables[lane].LeafPort
	before, err := x.Client.Status(x.ctx)
	x.ok(err)
	var bad *api.Cable
	errors := uint64(0)
	for began := time.Now(); bad == nil || bad.State != "isolated"; bad = x.healthOf(leaf, lane) {
		if errors += errors/2 + 1; errors > 60_000 || time.Since(began) > patience {
			x.Fatalf("%d errors, and it is %+v", errors, bad)
		}
		x.count(at.Name, port, "PortCounters.SymbolErrorCounter", errors)
		x.read()
	}
	st := x.settled(Cable(leaf, lane, "degraded"))
	x.said(st.LastEvent.What, fmt.Sprintf("%s port %d", at.Name, port), "is isolated, which costs no phase", "symbol errors")
	if x.uses(leaf, lane) || st.Phases != 359 || st.Epoch != before.Epoch+1 || !HasWarning(st, health.Isolated) {
		x.Errorf("with %d errors: used %v, %d phases, epoch %d after %d, %v", errors, x.uses(leaf, lane), st.Phases, st.Epoch, before.Epoch, st.Warnings)
	}
	x.check()
	x.Logf("isolated after %d symbol errors, %d phases", errors, st.Phases)

	// It fails now: the plan has done without it.
	x.ok(x.Sim.Unlink(x.ctx, at.Name, int(port)))
	x.settled(Cable(leaf, lane, "missing"))
	x.ok(x.Sim.Relink(x.ctx, at.Name, int(port)))
	st = x.settled(Cable(leaf, lane, "degraded"))
	if st.Epoch != before.Epoch+1 {
		x.Errorf("its failure led to epoch %d", st.Epoch)
	}
	x.ok(x.KillForsd(x.ctx), x.StartForsd()) // decisions outlive a crash
	x.settled(Cable(leaf, lane, "degraded"))
	x.becomes(leaf, lane, "probation")
	st = x.settled(Cable(leaf, lane, "full"))
	if !x.uses(leaf, lane) || st.Phases != 359 {
		x.Errorf("on probation: used %v, %d phases", x.uses(leaf, lane), st.Phases)
	}
	good := x.becomes(leaf, lane, "good")
	var story []string
	for _, h := range good.History {
		story = append(story, h.What)
	}
	if got := strings.Join(story, " "); got != "suspect isolated probation good" {
		x.Errorf("its history is %q", got)
	}
	x.check()
}

// storm makes six cables of a leaf count errors until most are isolated. The reason for not
// isolating the others must be reported.
func (x *test) storm(healthy *Sight, leaf, most int, because string) {
	x.Helper()
	at := healthy.Tree.Leaves[leaf]
	began := time.Now()
	for errors := uint64(50); ; errors += 50 {
		for lane := range 6 {
			x.count(at.Name, at.Cables[lane].LeafPort, "PortCounters.PortRcvErrors", errors)
		}
		x.read()
		isolated, refused := 0, 0
		for lane := range 6 {
			switch c := x.healthOf(leaf, lane); {
			case c.State == "isolated":
				isolated++
			case strings.Contains(c.Refused, because):
				refused++
			}
		}
		if isolated > most || errors > 60_000 || time.Since(began) > patience {
			x.Fatalf("%d are isolated, want %d; %d stay because %q", isolated, most, refused, because)
		}
		if isolated == most && refused == 6-most {
			break
		}
	}
	st := x.warned(health.Isolated, health.NotIsolated)
	x.Logf("%d of 6 are isolated: %d phases; %v", most, st.Phases, st.Warnings)
}

// TestCableReport only reports, which is the default.
func TestCableReport(t *testing.T) {
	t.Parallel()
	o := small()
	o.Config = steady + "cables: {" + hurried + "}\n"
	x, healthy := up(t, 3*time.Minute, o)
	x.read()
	before, err := x.Client.Status(x.ctx)
	x.ok(err)
	leaf, spine := healthy.Tree.Leaves[1], healthy.Tree.Spines[2]
	errors, st := uint64(0), before
	for began := time.Now(); x.healthOf(1, 0).State != "suspect" || x.healthOf(1, 2).State != "suspect" || !HasWarning(st, health.Suspect); {
		if errors += 1000; errors > 60_000 || time.Since(began) > patience {
			x.Fatalf("%d errors, and no two cables are suspect: %v", errors, st.Warnings)
		}
		x.count(leaf.Name, leaf.Cables[0].LeafPort, "PortCounters.SymbolErrorCounter", errors)
		x.count(spine.Name, leaf.Cables[2].SpinePort, "PortCounters.PortRcvErrors", errors/100)
		x.read()
		st, err = x.Client.Status(x.ctx)
		x.ok(err)
	}
	x.read()
	if st.Epoch != before.Epoch || HasWarning(st, health.Isolated) || HasWarning(st, health.NotIsolated) || !x.uses(1, 0) || !x.uses(1, 2) {
		t.Errorf("epoch %d after %d, %v", st.Epoch, before.Epoch, st.Warnings)
	}
	x.check()
	x.becomes(1, 0, "good") // no more errors have come
	x.becomes(1, 2, "good")
	x.until("no cable is suspect", func(st *api.Status) bool { return !HasWarning(st, health.Suspect) })
}
