package verify

import (
	"fmt"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
)

var sizes = []fabgen.Spec{
	{Spines: 20, Leaves: 18, LMC: 5},
	{Spines: 16, Leaves: 32, LMC: 5},
	{Spines: 32, Leaves: 32, LMC: 5},
}

func BenchmarkPlan(b *testing.B) {
	for _, spec := range sizes {
		b.Run(fmt.Sprintf("FT(2;%d,%d)", spec.Spines, spec.Leaves), func(b *testing.B) {
			t := tree(b, spec)
			tables, rows := naiveTables(t), linearShift(t)
			b.ReportAllocs()
			for b.Loop() {
				if err := Plan(t, tables, rows, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTables(b *testing.B) {
	for _, spec := range sizes {
		b.Run(fmt.Sprintf("FT(2;%d,%d)", spec.Spines, spec.Leaves), func(b *testing.B) {
			t := tree(b, spec)
			tables := naiveTables(t)
			b.ReportAllocs()
			for b.Loop() {
				if err := Tables(t, tables); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
