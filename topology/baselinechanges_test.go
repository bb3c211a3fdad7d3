package topology_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

func TestBaselineChanges(t *testing.T) {
	whole := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4})
	of := func(f *topology.Fabric) *topology.Baseline {
		b, err := topology.NewBaseline(f)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	damaged := whole.Clone()
	for _, spec := range []string{"Spine001", "Hca0000", "Hca0005"} {
		if _, err := damaged.Fail(spec); err != nil {
			t.Fatal(err)
		}
	}
	if got := topology.BaselineChanges(of(whole), of(whole)); got != nil {
		t.Errorf("nothing changes: %q", got)
	}
	want := []string{"3 lanes instead of 4", "1 spine forgotten: Spine001 (0x0000000000300001)",
		"2 host ports forgotten: [Hca0000 (0x0000000000100001) Hca0005 (0x000000000010000b)]",
		"other lanes for spines that stay: 2", "another index or leaf for host ports that stay: 5"}
	if diff := cmp.Diff(want, topology.BaselineChanges(of(whole), of(damaged))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := topology.BaselineChanges(of(damaged), of(whole)); len(got) != 5 || got[1] != "1 spine taken up: Spine001 (0x0000000000300001)" {
		t.Errorf("the other way: %q", got)
	}
}
