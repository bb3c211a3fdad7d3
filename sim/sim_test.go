package sim

import (
	"testing"

	"forsd/internal/fabgen"
	"forsd/lft"
	"forsd/topology"
)

// fabric generates a fabric, fits it after the change to what it was before, and
// builds its tables.
func fabric(t testing.TB, spec fabgen.Spec, change func(*topology.Fabric)) (*topology.FatTree, *lft.Tables) {
	t.Helper()
	f := fabgen.Generate(spec)
	b, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(f)
	}
	ft, err := topology.Fit(f, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := lft.Build(ft)
	if err != nil {
		t.Fatal(err)
	}
	return ft, tables
}
