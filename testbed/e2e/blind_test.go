package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
)

// TestIgnoredTraps bounces a cable at the manager's own leaf until OpenSM ignores that leaf's
// traps, and pulls another one there, whose spine's trap is lost with it. OpenSM does not sweep
// by itself here, so forsd has to read the leaf to notice that cable.
func TestIgnoredTraps(t *testing.T) {
	o := byPlugin(t, small())
	o.Conf = map[string]string{"sweep_interval": "0"}
	x, healthy := up(t, 5*time.Minute, o)
	const leaf, bouncing, lane = 0, 2, 1 // the manager runs on the first host
	at := healthy.Tree.Leaves[leaf]
	node := healthy.Tree.Fabric.Nodes[at.Node]
	bounce := int(at.Cables[bouncing].LeafPort)
	x.bounce(at.Name, bounce, node.LID())
	st := x.settled(nil)
	x.pullUnseen(healthy, leaf, lane, st.Epoch)
}

// pullUnseen pulls a cable of a leaf whose traps OpenSM ignores, and waits until it is out of
// the plan that follows on an epoch.
func (x *test) pullUnseen(healthy *Sight, leaf, lane int, epoch uint64) {
	x.Helper()
	at := healthy.Tree.Leaves[leaf]
	lid := healthy.Tree.Fabric.Nodes[at.Node].LID()
	before := x.ignored(lid)
	x.ok(x.Sim.Unlink(x.ctx, at.Name, int(at.Cables[lane].LeafPort)))
	pulled := time.Now()
	_, err := x.Client.WaitEpoch(x.ctx, epoch)
	x.ok(err)
	x.Logf("the plan without the cable came %v after it was pulled", time.Since(pulled).Round(time.Millisecond))
	x.settled(Cable(leaf, lane, "missing"))
	x.check()
	if x.ignored(lid) == before {
		x.Error("OpenSM has not ignored the last trap: this tells nothing")
	}
}

// bounce makes a cable die and come back until OpenSM ignores the traps of switches.
func (x *test) bounce(name string, port int, lids ...ib.LID) {
	x.Helper()
	for range 40 {
		x.ok(x.Sim.Unlink(x.ctx, name, port))
		time.Sleep(50 * time.Millisecond)
		x.ok(x.Sim.Relink(x.ctx, name, port))
		time.Sleep(50 * time.Millisecond)
		passed := func(lid ib.LID) bool { return x.ignored(lid) == 0 }
		if slices.ContainsFunc(lids, passed) {
			continue
		}
		time.Sleep(100 * time.Millisecond) // OpenSM may have been between receiving a trap and passing it on
		if !slices.ContainsFunc(lids, passed) {
			return
		}
	}
	x.Fatal("OpenSM ignores no trap")
}

// TestIgnoredBefore bounces a cable until OpenSM ignores the traps of both its switches, starts
// a new forsd, which does not know of that, and pulls the cable. OpenSM does not sweep by itself
// here: the trap is only in its log.
func TestIgnoredBefore(t *testing.T) {
	for _, way := range []string{"plugin", "files"} {
		t.Run(way, func(t *testing.T) {
			o := small()
			if way == "plugin" {
				o = byPlugin(t, o)
			}
			o.Conf = map[string]string{"sweep_interval": "0"}
			x, healthy := up(t, 5*time.Minute, o)
			const leaf, lane = 2, 1
			cable := healthy.Tree.Leaves[leaf].Cables[lane]
			name, port := healthy.Tree.Leaves[leaf].Name, int(cable.LeafPort)
			nodes := healthy.Tree.Fabric.Nodes
			ends := []ib.LID{nodes[healthy.Tree.Leaves[leaf].Node].LID(), nodes[healthy.Tree.Spines[healthy.Tree.LaneOf[lane]].Node].LID()}
			x.bounce(name, port, ends...)
			x.ok(x.SM.Sweep(x.ctx)) // the cable is back, which OpenSM has ignored, too
			x.settled(nil)
			x.ok(x.KillForsd(x.ctx), x.StartForsd())
			st := x.settled(Cable(leaf, lane, "full"))
			x.pullUnseen(healthy, leaf, lane, st.Epoch)
		})
	}
}

// ignored counts the traps of a switch that OpenSM has received and not passed on.
func (x *test) ignored(lid ib.LID) int {
	x.Helper()
	log, err := x.SM.Log()
	x.ok(err)
	return strings.Count(string(log), fmt.Sprintf("(Link state change) Producer:2 (Switch) from LID:%d ", lid)) -
		strings.Count(string(log), fmt.Sprintf(`Reporting Urgent Notice "Link state change" from switch LID %d,`, lid))
}
