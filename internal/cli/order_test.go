package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/forsd/forsd/api"
)

// TestNaturalOrder checks that names and ports are listed in natural order, not in order of
// GUIDs.
func TestNaturalOrder(t *testing.T) {
	var topology api.Topology
	var cables []api.Cable
	for _, n := range []int{10, 9, 100, 2} {
		topology.Leaves = append(topology.Leaves, api.Leaf{Name: fmt.Sprintf("leaf%d", n)})
		topology.Spines = append(topology.Spines, api.Spine{Name: fmt.Sprintf("spine%d", n)})
		for _, port := range []uint8{31, 4} {
			cables = append(cables, api.Cable{Leaf: api.CableEnd{Name: fmt.Sprintf("leaf%d", n), Port: port}})
		}
	}
	var out bytes.Buffer
	printTopology(&out, &topology)
	want := []string{"leaf2", "leaf9", "leaf10", "leaf100", "spine2", "spine9", "spine10", "spine100"}
	last := -1
	for _, name := range want {
		at := strings.Index(out.String(), "\n"+name+"\t")
		if at <= last {
			t.Fatalf("%s comes too early in\n%s", name, &out)
		}
		last = at
	}
	f := cablesFlags{all: true}
	got := ""
	for _, c := range f.chosen(cables) {
		got += fmt.Sprintf("%s/%d ", c.Leaf.Name, c.Leaf.Port)
	}
	if got != "leaf2/4 leaf2/31 leaf9/4 leaf9/31 leaf10/4 leaf10/31 leaf100/4 leaf100/31 " {
		t.Error(got)
	}
}
