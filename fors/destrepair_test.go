package fors

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// loads counts what lanes put on the links of a tree, out of leaves and into them, each lane a
// spine of its own.
func loads(t *Tree, via []Lane) (most int) {
	var leafOf []int
	for leaf, slots := range t.Slots {
		leafOf = append(leafOf, slices.Repeat([]int{leaf}, len(slots))...)
	}
	load := map[[3]int]int{}
	for i, k := range via {
		A, B := i/len(leafOf), leafOf[i%len(leafOf)]
		if A == B || k == Local {
			continue
		}
		load[[3]int{outward, A, int(k)}] += len(t.Slots[A])
		load[[3]int{inward, B, int(k)}] += len(t.Slots[A])
	}
	for _, n := range load {
		most = max(most, n)
	}
	return most
}

// TestRepair fails cables of trees with known lanes. Repair gives lanes to all units that can
// have one, none with more transfers than allowed; units that have to stay do, and if all lanes
// that are up can be kept, it keeps them.
func TestRepair(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tree := &Tree{Lanes: rapid.IntRange(2, 8).Draw(rt, "lanes")}
		for range rapid.IntRange(2, 6).Draw(rt, "leaves") {
			slots := make([]int, rapid.IntRange(1, 9).Draw(rt, "servers"))
			for i := range slots {
				slots[i] = i
			}
			tree.Slots = append(tree.Slots, slots)
			tree.Up = append(tree.Up, slices.Repeat([]bool{true}, tree.Lanes))
		}
		via, _, err := ChooseLanes(tree, Wish{})
		if err != nil {
			rt.Fatal(err)
		}
		w := Wish{Via: via, Stay: make([]bool, len(via))}
		for i := range w.Stay {
			w.Stay[i] = rapid.IntRange(0, 3).Draw(rt, "stay") == 0
		}
		for range rapid.IntRange(1, 4).Draw(rt, "dead") {
			tree.Up[rapid.IntRange(0, len(tree.Up)-1).Draw(rt, "leaf")][rapid.IntRange(0, tree.Lanes-1).Draw(rt, "lane")] = false
		}
		least, _, err := LeastOneLID(tree)
		if err != nil {
			rt.Fatal(err)
		}
		room := least + rapid.IntRange(0, 3).Draw(rt, "more")
		keeps := Keeps(tree, w, room)
		now, changed, ok := Repair(tree, w, room)
		if !ok {
			if keeps {
				rt.Fatal("no lanes, and all that are up may stay")
			}
			return
		}
		if most := loads(tree, now.Via); most > room {
			rt.Fatalf("a link with %d transfers, want %d at most", most, room)
		}
		for i, was := range via {
			A, up := i/tree.Servers(), false
			for B, d := 0, i%tree.Servers(); was != Local && d >= 0; B, d = B+1, d-len(tree.Slots[B]) {
				up = tree.Up[A][was] && tree.Up[B][was]
			}
			if up && now.Via[i] != was {
				changed--
			}
		}
		if changed != 0 {
			rt.Fatalf("%d lanes too many are counted as changed", changed)
		}
		base := 0
		for B, slots := range tree.Slots {
			for d := base; d < base+len(slots); d++ {
				for A := range tree.Slots {
					i, up := A*tree.Servers()+d, false
					for k := range tree.Lanes {
						up = up || A != B && tree.Up[A][k] && tree.Up[B][k]
					}
					k := now.Via[i]
					if up != (k != Local) || k != Local && !(tree.Up[A][k] && tree.Up[B][k]) {
						rt.Fatalf("leaf %d sends to server %d over lane %d", A, d, k)
					}
					if was := via[i]; was != Local && w.Stay[i] && tree.Up[A][was] && tree.Up[B][was] && k != was {
						rt.Fatalf("leaf %d sends to server %d over lane %d, and lane %d had to stay", A, d, k, was)
					}
				}
			}
			base += len(slots)
		}
	})
}

// TestRepairFewest compares the lanes that Repair changes on small trees with the fewest of all
// choices of lanes.
func TestRepairFewest(t *testing.T) {
	rng, more, trees := rand.New(rand.NewPCG(32, 1)), 0, 0
	for range 400 {
		tree := &Tree{Lanes: 2 + rng.IntN(2)}
		var leafOf []int
		for A := range 3 {
			n := 1 + rng.IntN(2)
			leafOf = append(leafOf, slices.Repeat([]int{A}, n)...)
			tree.Slots = append(tree.Slots, []int{0, 1}[:n])
			tree.Up = append(tree.Up, slices.Repeat([]bool{true}, tree.Lanes))
		}
		wish := make([]Lane, 3*len(leafOf))
		for i := range wish {
			wish[i] = Lane(rng.IntN(tree.Lanes))
		}
		tree.Up[rng.IntN(3)][rng.IntN(tree.Lanes)] = false
		room, fewest := 2+rng.IntN(3), math.MaxInt
		via := slices.Repeat([]Lane{Local}, len(wish))
		var choose func(i, changed int)
		choose = func(i, changed int) {
			if changed >= fewest || loads(tree, via) > room {
				return
			}
			if i == len(via) {
				fewest = changed
				return
			}
			A, B := i/len(leafOf), leafOf[i%len(leafOf)]
			if A == B {
				choose(i+1, changed)
				return
			}
			for k := range tree.Lanes {
				if up := tree.Up[A][k] && tree.Up[B][k]; up {
					lost := 0
					if Lane(k) != wish[i] && tree.Up[A][wish[i]] && tree.Up[B][wish[i]] {
						lost = 1
					}
					via[i] = Lane(k)
					choose(i+1, changed+lost)
				}
			}
			via[i] = Local
		}
		choose(0, 0)
		_, changed, ok := Repair(tree, Wish{Via: wish}, room)
		switch {
		case ok && changed < fewest:
			t.Fatalf("%d lanes change with %d transfers a link, fewer than the fewest of all choices, %d: %+v", changed, room, fewest, tree)
		case fewest < math.MaxInt:
			if trees++; !ok || changed > fewest {
				more++
			}
		}
	}
	if t.Logf("more than the fewest lanes change on %d of %d trees", more, trees); trees < 100 || 50*more > trees {
		t.Error("too many lanes change")
	}
}
