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
	k := NewPack(p, x.cables(), func(group int, to int32) []Choice {
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

// choices appends the ways between two leaves that live.
func (t *Tree) choices(a, b int32, ways []Choice) []Choice {
	if a == b {
		return append(ways, Choice{Cables: NoCables, Way: -1})
	}
	A, B, lanes := &t.Leaves[a], &t.Leaves[b], t.Lanes()
	for j := range t.Planes() {
		way, end := lanes+j, lanes+j+1
		if A.Pod != B.Pod {
			way, end = t.First[j], t.First[j+1]
		}
		for ; way < end && A.Up[j] && B.Up[j]; way++ {
			if A.Pod == B.Pod || t.laneUp(A.Pod, way) && t.laneUp(B.Pod, way) {
				ways = append(ways, Choice{Cables: t.passes(a, b, int16(way)), Way: int16(way)})
			}
		}
	}
	return ways
}

// passes returns the cables of a way between two leaves, by number: out of leaves and into them, by
// plane, out of pods and into them, by lane.
func (t *Tree) passes(a, b int32, way int16) Cables {
	of, leaves, planes, lanes := NoCables, int32(len(t.Leaves)), int32(t.Planes()), int32(t.Lanes())
	if way < 0 {
		return of
	}
	j, k := int32(way)-lanes, int32(way)
	if j < 0 {
		for j = 0; t.First[j+1] <= int(k); {
			j++
		}
		of[2], of[3] = 2*leaves*planes+int32(t.Leaves[a].Pod)*lanes+k, 2*leaves*planes+int32(t.Pods+t.Leaves[b].Pod)*lanes+k
	}
	of[0], of[1] = a*planes+j, (leaves+b)*planes+j
	return of
}

// cables returns how many numbers cables have.
func (t *Tree) cables() int { return 2*len(t.Leaves)*t.Planes() + 2*t.Pods*t.Lanes() }
