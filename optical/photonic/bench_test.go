package photonic

import (
	"fmt"
	"testing"
)

// BenchmarkMake plans and replays exchanges with any number of reconfigurations.
func BenchmarkMake(b *testing.B) {
	for _, c := range []struct {
		gpus, degree int
		sizes        string
		us           float64
	}{{64, 1, "uniform", 1000}, {64, 2, "uniform", 1000}, {64, 2, "zipf", 1000}, {512, 1, "uniform", 10_000}, {4096, 1, "uniform", 10_000}} {
		b.Run(fmt.Sprintf("%d/degree=%d/%s", c.gpus, c.degree, c.sizes), func(b *testing.B) {
			in := &Instance{GPUs: c.gpus, Degree: c.degree, Reconfig: Micros(c.us), Link: DefaultLink, Message: DefaultMessage}
			if err := in.Draw(c.sizes, ZipfFactor, 1); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				p, err := Make(b.Context(), in, Options{Relabel: true})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(p.Cost)/float64(p.LowerBound), "cost/bound")
			}
		})
	}
}

// BenchmarkReplay replays a plan of 4096 GPUs, 4·10⁷ moves one by one.
func BenchmarkReplay(b *testing.B) {
	in := &Instance{GPUs: 4096, Degree: 1, Reconfig: Micros(10_000), Link: DefaultLink, Message: DefaultMessage}
	p, err := Make(b.Context(), in, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := Replay(bg, in, p)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.Moves), "moves")
	}
}
