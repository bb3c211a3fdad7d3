package liquid_test

import (
	"context"
	"testing"

	"github.com/forsd/forsd/liquid"
)

// BenchmarkSwissT1 schedules the exchange of all nodes of the paper's test bed.
func BenchmarkSwissT1(b *testing.B) {
	n, err := liquid.SwissT1()
	if err != nil {
		b.Fatal(err)
	}
	traffic, err := n.AllocatedAllToAll(n.Capacity())
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range []liquid.Method{liquid.MethodSearch, liquid.MethodColouring, liquid.MethodDsatur, liquid.MethodRoundRobin} {
		b.Run(string(m), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := liquid.Make(context.Background(), traffic, liquid.Options{Method: m}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTrace takes 129,240 paths from tables.
func BenchmarkTrace(b *testing.B) {
	routes := tree(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := liquid.Trace(routes.Fabric, routes.Tables, routes.Hosts, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMoves moves transfers of 360 hosts, with hardly a step to spare.
func BenchmarkMoves(b *testing.B) {
	routes := tree(b, 1)
	moves := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		r, err := liquid.Make(context.Background(), routes.Traffic, liquid.Options{Method: liquid.MethodColouring, Moves: 2000})
		if err != nil {
			b.Fatal(err)
		}
		moves += r.Moves
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(moves), "ns/move")
}
