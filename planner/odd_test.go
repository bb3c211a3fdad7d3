package planner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// oddFabrics is how many are drawn: 100, or with FORS_LONG 10000.
func oddFabrics() int {
	if os.Getenv("FORS_LONG") != "" {
		return 10000
	}
	return 100
}

// TestOddFabrics plans fat trees with odd parts, and again with a dead cable. Tables and plans
// are verified, every host reaches every other one, and exactly the parts that are not covered
// are named.
func TestOddFabrics(t *testing.T) {
	seen := map[string]int{}
	for seed := range oddFabrics() {
		o := fabgen.Odd(rand.New(rand.NewPCG(uint64(seed), 14)))
		for _, what := range o.What {
			seen[strings.Join(strings.Fields(what)[:2], " ")]++
		}
		name := fmt.Sprintf("seed %d (%s)", seed, strings.Join(o.What, ", "))
		from := o.Fabric
		if seed%2 == 1 {
			from = o.Tree // the odd parts came later
		}
		base, err := topology.NewBaseline(from)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !oddPlan(t, name, o, o.Fabric, base) {
			return
		}
		dead := o.Fabric.Clone()
		leaf := dead.Find(fabgen.LeafGUID + 1)
		for p := range dead.Nodes[leaf].Ports {
			if peer := dead.Nodes[leaf].Ports[p].Peer; peer != topology.None && dead.Nodes[peer].GUID == fabgen.SpineGUID+1 {
				dead.Disconnect(topology.PortRef{Node: leaf, Port: uint8(p)})
				break
			}
		}
		if !oddPlan(t, name+", a dead cable", o, dead, base) {
			return
		}
	}
	t.Log(seen)
}

// TestTwins has two adapters with one port GUID, and so with one LID: all others are planned
// at the bound, and a warning names where both are plugged in.
func TestTwins(t *testing.T) {
	whole := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	base, err := topology.NewBaseline(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{true, false} {
		f := whole.Clone()
		port := func(host int) *topology.Port {
			return f.At(topology.PortRef{Node: f.Find(fabgen.HostGUID + ib.GUID(2*host)), Port: 1})
		}
		port(9).GUID, port(9).LID = port(2).GUID, port(2).LID
		f, err := topology.NewFabric(f.Nodes, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := base
		if !known {
			if b, err = topology.NewBaseline(f); err != nil {
				t.Fatal(err)
			}
		}
		tree, err := topology.Fit(f, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Make(context.Background(), tree, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if err := verify.Tables(tree, r.Tables); err != nil {
			t.Error(err)
		}
		if len(tree.Servers) != 15 || r.Plan.Phases != r.Plan.LowerBound {
			t.Errorf("%d servers, %d phases for a bound of %d", len(tree.Servers), r.Plan.Phases, r.Plan.LowerBound)
		}
		const want = "Hca0009 port 1 at Leaf002 port 2 has the port GUID 0x0000000000100005, as the one at Leaf000 port 3"
		if text := finding(tree); !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}

func oddPlan(t *testing.T, name string, o *fabgen.OddFabric, f *topology.Fabric, base *topology.Baseline) bool {
	t.Helper()
	tree, err := topology.Fit(f, base, nil)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return false
	}
	if text := misnamed(o, tree); text != "" {
		t.Errorf("%s: %s; %s", name, text, finding(tree))
		return false
	}
	r, err := Make(context.Background(), tree, Settings{})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return false
	}
	if err := verify.Tables(tree, r.Tables); err != nil {
		t.Errorf("%s: %v", name, err)
		return false
	}
	if len(r.Plan.Unreachable) > 0 {
		t.Errorf("%s: %d pairs are left out", name, len(r.Plan.Unreachable))
	}
	if text := undelivered(f, r.Tables); text != "" {
		t.Errorf("%s: %s", name, text)
		return false
	}
	return true
}

// finding is the text of the tree's finding about what it does not cover.
func finding(tree *topology.FatTree) (text string) {
	for _, f := range tree.Findings {
		if f.Code == topology.PartlyCovered {
			text += f.Text
		}
	}
	return text
}

// misnamed says how what the tree does not cover differs from the odd parts.
func misnamed(o *fabgen.OddFabric, tree *topology.FatTree) string {
	f, u := tree.Fabric, &tree.Uncovered
	if len(u.Switches) != len(o.Switches) || len(u.Hosts) != len(o.Hosts) || len(u.Cables) != o.Cables {
		return fmt.Sprintf("%d switches, %d hosts, %d cables are not covered, want %d, %d, %d", len(u.Switches), len(u.Hosts), len(u.Cables),
			len(o.Switches), len(o.Hosts), o.Cables)
	}
	text, findings := finding(tree), 0
	for _, x := range tree.Findings {
		if x.Code == topology.PartlyCovered {
			findings++
		}
	}
	if (findings == 1) == u.Empty() || findings > 1 {
		return fmt.Sprintf("%d findings", findings)
	}
	for _, i := range u.Switches {
		if n := &f.Nodes[i]; !o.Switches[n.GUID] || !strings.Contains(text, n.String()) {
			return n.String() + " is not an odd switch, or is not named"
		}
	}
	for _, h := range u.Hosts {
		if !o.Hosts[f.At(h.PortRef).GUID] || !strings.Contains(text, f.PortLabel(h.PortRef)) {
			return f.PortLabel(h.PortRef) + " is not an odd host, or is not named"
		}
	}
	for _, r := range u.Cables {
		if !strings.Contains(text, f.CableLabel(r)) {
			return f.CableLabel(r) + " is not named"
		}
	}
	return ""
}

// undelivered walks every LID from every host to its owner, and names the first that does
// not arrive.
func undelivered(f *topology.Fabric, tables *lft.Tables) string {
	for _, from := range f.EndPorts() {
		if f.Nodes[from.Node].Kind == topology.Switch || from.LID == 0 {
			continue
		}
		for _, to := range f.EndPorts() {
			for j := 0; to.LID != 0 && f.Nodes[to.Node].Kind != topology.Switch && j < 1<<to.LMC; j++ {
				hops, err := tables.Trace(f, from.PortRef, to.LID+ib.LID(j))
				if err != nil {
					return fmt.Sprintf("from %s: %v", f.PortLabel(from.PortRef), err)
				}
				if last := hops[len(hops)-1]; last.Node != to.Node {
					return fmt.Sprintf("from %s: LID %d ends at %s", f.PortLabel(from.PortRef), to.LID, &f.Nodes[last.Node])
				}
			}
		}
	}
	return ""
}
