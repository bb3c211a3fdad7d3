package gpu

import (
	"slices"
	"testing"
)

func TestGenerate(t *testing.T) {
	c := Cluster{8, 4}
	ranks := c.Ranks()
	for _, pattern := range Patterns {
		const mean = 1 << 20
		traffic, err := Generate(c, pattern, mean, .7, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := traffic.check(); err != nil {
			t.Fatal(err)
		}
		again, err := Generate(c, pattern, mean, .7, 1)
		if err != nil || !slices.Equal(traffic.Bytes, again.Bytes) {
			t.Errorf("%s: the same seed gives other traffic (error %v)", pattern, err)
		}
		other, err := Generate(c, pattern, mean, .7, 2)
		if err != nil || slices.Equal(traffic.Bytes, other.Bytes) {
			t.Errorf("%s: another seed gives the same traffic (error %v)", pattern, err)
		}
		sum := int64(0)
		for at, v := range traffic.Bytes {
			if v > 0 && traffic.server(Rank(at/ranks)) == traffic.server(Rank(at%ranks)) {
				t.Fatalf("%s: GPU %d has bytes for GPU %d of its server", pattern, at/ranks, at%ranks)
			}
			sum += v
		}
		if got := float64(sum) / float64(ranks*(ranks-c.GPUs)); got < .9*mean || got > 1.1*mean {
			t.Errorf("%s: messages of %.0f bytes on average, want %d", pattern, got, mean)
		}
		out, in := traffic.loads()
		skew := float64(max(slices.Max(out), slices.Max(in))) / float64(sum) * float64(ranks)
		if pattern == Uniform && skew > 1.5 || (pattern == Hotspot || pattern == MoE) && skew < 2 {
			t.Errorf("%s: the busiest GPU has %.2f times the mean", pattern, skew)
		}
	}
}

func TestGenerateRefuses(t *testing.T) {
	for _, x := range []struct {
		c       Cluster
		pattern Pattern
		mean    int64
		skew    float64
	}{
		{Cluster{2, 2}, "other", 1, 0}, {Cluster{2, 2}, Uniform, -1, 0}, {Cluster{2, 2}, Uniform, maxTotal, 0},
		{Cluster{2, 2}, Hotspot, 1, 1.5}, {Cluster{2, 2}, Zipf, 1, -1}, {Cluster{-2, 2}, Zipf, 1, 1}, {Cluster{2, 1 << 40}, Zipf, 1, 1},
	} {
		if _, err := Generate(x.c, x.pattern, x.mean, x.skew, 0); err == nil {
			t.Errorf("%+v is taken", x)
		}
	}
}

// Two experts on each of two GPUs.
func TestFromRouting(t *testing.T) {
	traffic, err := FromRouting(Cluster{2, 1}, 4, []float64{1, 2, 3, 4, 10, 20, 30, 40}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int64{3000, 7000, 30000, 70000}; !slices.Equal(traffic.Bytes, want) {
		t.Errorf("traffic %v, want %v", traffic.Bytes, want)
	}
	if back, want := traffic.Transpose(), []int64{3000, 30000, 7000, 70000}; !slices.Equal(back.Bytes, want) {
		t.Errorf("way back %v, want %v", back.Bytes, want)
	}
	for _, x := range []struct {
		experts int
		counts  []float64
		bytes   int64
	}{{3, make([]float64, 6), 1}, {4, make([]float64, 6), 1}, {2, []float64{1, -1, 0, 0}, 1}, {2, []float64{1, .5, 0, 0}, 1}, {2, make([]float64, 4), 0}, {2, []float64{0, 1e30, 0, 0}, 1}, {0, nil, 1}} {
		if _, err := FromRouting(Cluster{2, 1}, x.experts, x.counts, x.bytes); err == nil {
			t.Errorf("%+v is taken", x)
		}
	}
}

func TestFromEntriesRefuses(t *testing.T) {
	for _, entries := range [][]float64{{1, 2, 3}, {1, 2, 3, -4}, {1, 2, 3, .5}, {0, 1 << 60, 1, 0}, {0, 1e19, 0, 0}} {
		if _, err := FromEntries(Cluster{2, 1}, entries, nil); err == nil {
			t.Errorf("%v is taken", entries)
		}
	}
}

func TestOf(t *testing.T) {
	if c, err := Of(12, 4); err != nil || c != (Cluster{3, 4}) {
		t.Errorf("12 GPUs, 4 a server: %+v, %v", c, err)
	}
	for _, x := range [][2]int{{12, 5}, {12, 0}, {0, 4}, {12, -4}, {2 * MaxRanks, 1}} {
		if c, err := Of(x[0], x[1]); err == nil {
			t.Errorf("%d GPUs, %d a server are %+v", x[0], x[1], c)
		}
	}
}
