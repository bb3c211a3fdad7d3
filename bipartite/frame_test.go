package bipartite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/forsd/forsd/bipartite"
)

// ExampleFrame shares four jobs of three machines and two workers among two hours.
func ExampleFrame() {
	f := bipartite.Frame{Degree: 2, Left: &bipartite.Side{}, Right: &bipartite.Side{}}
	for machine := range int32(3) {
		f.Left.Add(machine, f.Degree)
	}
	for worker := range int32(2) {
		f.Right.Add(worker, f.Degree)
	}
	for _, job := range [][2]int32{{0, 0}, {0, 1}, {1, 0}, {2, 1}} {
		f.Join(job[0], job[1], 1)
	}
	n := f.Even()
	hours := make([]int32, 2*n)
	if err := f.Colour(context.Background(), &bipartite.Colourer{}, hours); err != nil {
		fmt.Println(err)
	}
	for hour := range 2 {
		for machine, v := range hours[hour*n:][:n] {
			if worker := f.Right.Of[v]; worker >= 0 {
				fmt.Printf("hour %d: worker %d at machine %d\n", hour, worker, machine)
			}
		}
	}
	// Output:
	// hour 0: worker 0 at machine 0
	// hour 0: worker 1 at machine 2
	// hour 1: worker 1 at machine 0
	// hour 1: worker 0 at machine 1
}

// TestFrame packs loads into bins, joins bins at random and checks that each edge has its own
// colour at both ends.
func TestFrame(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		f := bipartite.Frame{Degree: 1 + rng.Int32N(9), Left: &bipartite.Side{}, Right: &bipartite.Side{}}
		for _, side := range []*bipartite.Side{f.Left, f.Right} {
			loads := make([]int32, 20)
			for range 12 {
				load := 1 + rng.Int32N(f.Degree)
				bin := side.Fit(0, load, 0, f.Degree)
				if loads[bin] += load; loads[bin] > f.Degree || side.Room[bin] != f.Degree-loads[bin] {
					t.Fatalf("bin %d of %d has %d and room for %d", bin, f.Degree, loads[bin], side.Room[bin])
				}
			}
			copy(side.Room, loads) // the loads are the edges to come
		}
		want := map[[2]int32]int{}
		for range 30 {
			u, v := rng.Int32N(int32(len(f.Left.Of))), rng.Int32N(int32(len(f.Right.Of)))
			want[[2]int32{u, v}] += int(f.Join(u, v, 1+rng.Int32N(3)))
		}
		for _, side := range []*bipartite.Side{f.Left, f.Right} {
			for v := range side.Room { // what is idle of the bins
				side.Room[v] = f.Degree
			}
		}
		for _, a := range f.Arcs {
			f.Left.Room[a.Left] -= a.Count
			f.Right.Room[a.Right] -= a.Count
		}
		n := f.Even()
		match := make([]int32, n*int(f.Degree))
		if err := f.Colour(context.Background(), &bipartite.Colourer{}, match); err != nil {
			t.Fatal(err)
		}
		got := map[[2]int32]int{}
		for c := range int(f.Degree) {
			seen := map[int32]bool{}
			for u, v := range match[c*n:][:n] {
				if seen[v] {
					t.Fatalf("colour %d has two edges at right vertex %d", c, v)
				}
				seen[v] = true
				got[[2]int32{int32(u), v}]++
			}
		}
		for ends, count := range want {
			if got[ends] < count {
				t.Fatalf("%d of the %d edges between %v are coloured", got[ends], count, ends)
			}
		}
	}
}
