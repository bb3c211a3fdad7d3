package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// burstSize is the number of cables of a burst.
const burstSize = 9

// TestBurst pulls nine random cables of the LHCb fabric at once, and puts them
// back. The plan for either has as many phases as the bound, and holds on the
// tables read back. One plan answers the changes that forsd has seen before it is published;
// there is another one only if OpenSM was so slow to sweep, or ibsim to pull, that forsd sees the
// rest later. With FORS_LONG=1 it does so 30 times. After a few rounds most switches have sent so
// many traps that OpenSM may ignore them: forsd reads them itself then, ahead of the sweep that
// shows the rest.
func TestBurst(t *testing.T) {
	x, healthy := up(t, 10*time.Minute, lhcb())
	rng := rand.New(rand.NewPCG(9, 360))
	for range many(2, 30) {
		cables, ports := draw(rng, healthy.Tree)
		var lanes []int
		for _, c := range cables {
			lanes = append(lanes, c.Lane)
		}

		st, plans := x.burst(cables, "missing", func() error { return x.Sim.UnlinkAll(x.ctx, ports) })
		x.unmoved(healthy, x.check(), lanes...)
		if plans == 1 && len(st.LastEvent.What) != len(cables) {
			t.Errorf("cables %v: one plan, though its dump showed only %q", cables, st.LastEvent.What)
		}
		if !HasWarning(st, topology.CableDown) {
			t.Errorf("cables %v: warnings %v", cables, st.Warnings)
		}

		st, _ = x.burst(cables, "full", func() error { return x.Sim.RelinkAll(x.ctx, ports) })
		x.unmoved(healthy, x.check())
		if st.Phases != 359 || st.Engine != "rotation" || HasWarning(st, topology.CableDown) {
			t.Errorf("cables %v are back: %d phases by %s, warnings %v", cables, st.Phases, st.Engine, st.Warnings)
		}
	}
	x.noRoutingErrors()
}

// draw takes different cables from a healthy tree: as lanes of leaves, and as
// ports.
func draw(rng *rand.Rand, tree *topology.FatTree) (cables []controller.Lane, ports []ibsim.Port) {
	for len(cables) < burstSize {
		c := controller.Lane{Leaf: rng.IntN(len(tree.Leaves)), Lane: rng.IntN(tree.Lanes)}
		if slices.Contains(cables, c) {
			continue
		}
		at := &tree.Leaves[c.Leaf]
		cables = append(cables, c)
		ports = append(ports, ibsim.Port{Node: at.Name, Port: int(at.Cables[c.Lane].LeafPort)})
	}
	return cables, ports
}

// burst changes all the cables at once, waits until forsd is at rest on the result, and counts
// the plans published on the way. It fails if the last plan is not optimal, or if there were
// more plans than moments at which forsd has seen something new.
func (x *test) burst(cables []controller.Lane, state string, act func() error) (st *api.Status, plans int) {
	x.Helper()
	before, err := x.Client.Status(x.ctx)
	x.ok(err)
	path := filepath.Join(x.Dir(), "forsd.log")
	past, err := os.ReadFile(path)
	x.ok(err, act())
	st = x.settled(func(t *api.Topology) error {
		for _, c := range cables {
			if err := Cable(c.Leaf, c.Lane, state)(t); err != nil {
				return err
			}
		}
		return nil
	})
	log, err := os.ReadFile(path)
	x.ok(err)
	seen := map[string]bool{}       // when
	published, late := false, false // something was seen after the first plan
	for _, m := range regexp.MustCompile(`"ts":"([^"]+)","msg":"(fabric changed|published)"`).FindAllSubmatch(log[len(past):], -1) {
		if string(m[2]) == "published" {
			published = true
		} else {
			seen[string(m[1])], late = true, late || published
		}
	}
	plans = int(st.Epoch - before.Epoch)
	x.Logf("%d cables %s: seen %d times, %d plans, %d phases by %s, published after %.0f ms", len(cables), state, len(seen), plans, st.Phases, st.Engine, 1e3*st.LastEvent.PublishedSeconds)
	if plans < 1 || plans > len(seen) || plans > 1 && !late {
		x.Errorf("cables %v became %s at once: %d plans were published, and forsd saw something new %d times, after the first plan: %v", cables, state, plans, len(seen), late)
	}
	if st.Phases != st.LowerBound {
		x.Errorf("cables %v are %s: %d phases by engine %s, where the bound is %d", cables, state, st.Phases, st.Engine, st.LowerBound)
	}
	return st, plans
}
