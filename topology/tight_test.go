package topology_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

var (
	roleText  = regexp.MustCompile(`management: '(.*)'`)
	boundText = regexp.MustCompile(`(\d+) phases at least, and (\d+) without`)
)

func ofCode(found []topology.Finding, code string) (texts []string) {
	for _, f := range found {
		if f.Code == code {
			texts = append(texts, f.Text)
		}
	}
	return texts
}

// TestLeafBinds: a leaf of few cables that makes all others wait is named, on two levels and
// on three, and the line that the finding gives takes its hosts out.
func TestLeafBinds(t *testing.T) {
	two := func(f *topology.Fabric) ([]topology.Finding, int) {
		tree := fabgen.Fitted(t, f)
		return tree.Findings, len(tree.Servers)
	}
	three := func(f *topology.Fabric) ([]topology.Finding, int) {
		tree := fabgen.FittedPods(t, f)
		return tree.Findings, len(tree.Servers)
	}
	storage := fabgen.GenerateTree(fabgen.TreeSpec{Pods: 3, Leaves: 4, Mids: 4, Tops: 4, Hosts: 4})
	for p, port := range storage.Nodes[storage.Find(fabgen.LeafGUID)].Ports {
		switch {
		case p >= 1 && p <= 4:
			storage.Nodes[port.Peer].Name = fmt.Sprintf("store%d.site mlx5_%d", p/3, p)
		case p >= 6:
			storage.Disconnect(topology.PortRef{Node: storage.Find(fabgen.LeafGUID), Port: uint8(p)})
		}
	}
	for name, c := range map[string]struct {
		f          *topology.Fabric
		fit        func(*topology.Fabric) ([]topology.Finding, int)
		leaf       string
		hosts      int
		with, less string // phases
	}{
		"two levels":   {fabgen.LoginLeaf(3), two, "leaf Leaf006 (2 cables for 4 hosts)", 4, "72", "35"},
		"three levels": {storage, three, "leaf Leaf000 (1 cable for 4 hosts)", 4, "176", "43"},
	} {
		found, before := c.fit(c.f)
		texts := ofCode(found, topology.LeafBinds)
		if len(texts) != 1 || !strings.Contains(texts[0], c.leaf) {
			t.Errorf("%s: %v", name, found)
			continue
		}
		if m := boundText.FindStringSubmatch(texts[0]); m == nil || m[1] != c.with || m[2] != c.less {
			t.Errorf("%s: %s; want %s and %s", name, texts[0], c.with, c.less)
		}
		m := roleText.FindStringSubmatch(texts[0])
		if m == nil {
			t.Errorf("%s: there is no role in %s", name, texts[0])
			continue
		}
		found, after := c.fit(c.f.WithRoles(topology.Roles{Management: regexp.MustCompile(m[1])}))
		if len(ofCode(found, topology.LeafBinds)) != 0 || before-after != c.hosts {
			t.Errorf("%s: with the role %d of %d servers are left, findings %v", name, after, before, found)
		}
	}
	for name, f := range map[string]*topology.Fabric{"regular": fabgen.Generate(fabgen.Spec{Spines: 6, Leaves: 7}), "3:2": fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 7, Hosts: []int{6}}),
		"one more host": fabgen.Generate(fabgen.Spec{Spines: 6, Leaves: 7, Hosts: []int{7, 6, 6, 6, 6, 6, 6}})} {
		if found, _ := two(f); len(found) != 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// TestFewSpineCables: rails that one more switch joins are not taken for a tree without a word.
func TestFewSpineCables(t *testing.T) {
	tree := fabgen.Fitted(t, fabgen.RailsOnly(8, 32))
	if texts := ofCode(tree.Findings, topology.FewSpineCables); len(texts) != 1 || !strings.Contains(texts[0], "at least 7168 phases, one within a leaf 31") {
		t.Errorf("%v", tree.Findings)
	}
	if tree := fabgen.Fitted(t, fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 4, Hosts: []int{16}})); len(tree.Findings) != 0 {
		t.Errorf("%v", tree.Findings)
	}
}

// TestUncoveredPairs counts the pairs of hosts on spines.
func TestUncoveredPairs(t *testing.T) {
	u := topology.Uncovered{Hosts: make([]topology.UncoveredHost, 3)}
	if n := u.Pairs(10); n != 13*12-10*9 {
		t.Errorf("%d pairs", n)
	}
}
