package pods

import (
	"context"
	"math/rand/v2"
)

const (
	// smallUnits is how many units a plan may have that is packed packTries times, if it is a
	// block too long, and with more blocks in as many times fewer.
	smallUnits = 600
	packTries  = 16
)

// packed returns the shortest of a plan and those by pack: one, or in a small tree several, until
// one has the least blocks.
func (x *instance) packed(ctx context.Context, p *Plan, least int) (*Plan, error) {
	units := 0
	for a := range x.Leaves {
		units += ceilDiv(len(x.Leaves[a].Slots), int(x.group)) * len(x.homeOf)
	}
	for try := 0; p == nil || p.Blocks > least && units <= smallUnits && try*(p.Blocks-least) < packTries; try++ {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if q := x.pack(least, try); p == nil || q.Blocks < p.Blocks {
			p = q
		}
	}
	return p, nil
}

// pack plans in so many blocks, or more, by finding room for one unit after the other: see Pack, to
// which each group is a leaf of its own. Other tries begin elsewhere.
func (x *instance) pack(blocks, try int) *Plan {
	p := &Plan{Engine: Pods, Group: int(x.group), Blocks: blocks, First: []int32{0}, Base: []int32{0}}
	var leafOf []int32 // [group]
	first := []int32{0}
	for a := range x.Leaves {
		for s := x.base[a]; s < x.base[a+1]; s += x.group {
			leafOf = append(leafOf, int32(a))
			p.First, p.Base = append(p.First, int32(len(leafOf))*x.group), append(p.Base, min(s+x.group, x.base[a+1]))
		}
		first = append(first, p.First[len(leafOf)])
	}
	var ways []Choice
	k := NewPack(p, 2*len(x.Leaves)*x.Planes()+2*x.Pods*x.Lanes(), func(group int, to int32) []Choice {
		ways = x.choices(leafOf[group], x.homeOf[to], ways[:0])
		return ways
	})
	k.rng = rand.New(rand.NewPCG(1, uint64(try)+1))
	var late []Late
	for n, shift := int32(len(x.homeOf)), int32(0); shift < n; shift++ {
		for i, a := range leafOf {
			d := (p.Base[i] + shift + int32(try)) % n
			if alone := d == p.Base[i] && d+1 == p.Base[i+1]; !alone && x.ok(int(a), int(x.homeOf[d])) {
				late = append(late, Late{i, d})
			}
		}
	}
	k.Place(late)
	p.First, p.Base = first, x.base
	return p
}

// choices appends the ways between two leaves. Cables are numbered: out of leaves and into them, by
// plane, out of pods and into them, by lane.
func (t *Tree) choices(a, b int32, ways []Choice) []Choice {
	if a == b {
		return append(ways, Choice{Cables: NoCables, Way: -1})
	}
	A, B, leaves, planes, lanes := &t.Leaves[a], &t.Leaves[b], int32(len(t.Leaves)), int32(t.Planes()), int32(t.Lanes())
	for j := range planes {
		if !A.Up[j] || !B.Up[j] {
			continue
		}
		c := Choice{Cables: Cables{a*planes + j, (leaves+b)*planes + j, -1, -1}, Way: int16(lanes + j)}
		if A.Pod == B.Pod {
			ways = append(ways, c)
			continue
		}
		for k := int32(t.First[j]); k < int32(t.First[j+1]); k++ {
			if rise, fall := int32(A.Pod)*lanes+k, int32(B.Pod)*lanes+k; t.Up[rise] && t.Up[fall] {
				c.Way, c.Cables[2], c.Cables[3] = int16(k), 2*leaves*planes+rise, 2*leaves*planes+int32(t.Pods)*lanes+fall
				ways = append(ways, c)
			}
		}
	}
	return ways
}
