package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/topology"
)

// TestIgnoredTraps bounces a cable at the manager's own leaf until OpenSM ignores that
// leaf's traps, and pulls another one there, whose spine's trap is lost with it. OpenSM
// does not sweep by itself here, so nobody tells of that cable: forsd reads the leaf.
func TestIgnoredTraps(t *testing.T) {
	o := byPlugin(t, small())
	o.Conf = map[string]string{"sweep_interval": "0"}
	x, healthy := up(t, 5*time.Minute, o)
	const leaf, bouncing, lane = 0, 2, 1 // the manager runs on the first host
	at := healthy.Tree.Leaves[leaf]
	node := healthy.Tree.Fabric.Nodes[at.Node]
	bounce := int(at.Cables[bouncing].LeafPort)
	for n := 0; x.ignored(node.LID()) == 0; n++ {
		if n == 40 {
			t.Fatal("OpenSM ignores no trap")
		}
		x.ok(x.Sim.Unlink(x.ctx, at.Name, bounce))
		time.Sleep(50 * time.Millisecond)
		x.ok(x.Sim.Relink(x.ctx, at.Name, bounce))
		time.Sleep(50 * time.Millisecond)
	}
	st := x.settled(nil)
	before := x.ignored(node.LID())
	x.ok(x.Sim.Unlink(x.ctx, at.Name, int(at.Cables[lane].LeafPort)))
	pulled := time.Now()
	_, err := x.Client.WaitEpoch(x.ctx, st.Epoch)
	x.ok(err)
	t.Logf("the plan without the cable came %v after it was pulled", time.Since(pulled).Round(time.Millisecond))
	x.settled(Cable(leaf, lane, "missing"))
	x.check()
	if x.ignored(node.LID()) == before {
		t.Error("OpenSM has not ignored the last trap: this tells nothing")
	}
}

// ignored counts the traps of a switch that OpenSM has received and told nobody of.
func (x *test) ignored(lid topology.LID) int {
	x.Helper()
	log, err := x.SM.Log()
	x.ok(err)
	return strings.Count(string(log), fmt.Sprintf("(Link state change) Producer:2 (Switch) from LID:%d ", lid)) -
		strings.Count(string(log), fmt.Sprintf(`Reporting Urgent Notice "Link state change" from switch LID %d,`, lid))
}
