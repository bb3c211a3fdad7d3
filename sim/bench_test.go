package sim

import (
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
)

func BenchmarkLinearShift(b *testing.B) {
	ft, tables := fabric(b, fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Run(ft.Fabric, tables, LinearShift(ft)); err != nil {
			b.Fatal(err)
		}
	}
}
