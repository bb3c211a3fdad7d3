package pods

import (
	"context"

	"github.com/forsd/forsd/fors"
)

const (
	// smallUnits is how many units a plan may have that is packed packTries times, if it is a
	// block too long, and with more blocks in as many times fewer.
	smallUnits = 600
	packTries  = 16

	// PackWork is how long units look for room; see fors.Pack.
	PackWork = 1 << 24
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

// pack plans in so many blocks, or more, by finding room for one unit after the other: see fors.Pack,
// to which each group is a leaf of its own. Other tries begin elsewhere.
func (x *instance) pack(blocks, try int) *Plan {
	p := &Plan{Engine: Pods, Group: int(x.group), Base: x.base, First: []int32{0}}
	var base []int32 // [group] its first server
	for a := range x.Leaves {
		for s := x.base[a]; s < x.base[a+1]; s += x.group {
			base = append(base, s)
		}
		p.First = append(p.First, int32(len(base))*x.group)
	}
	base = append(base, int32(len(x.homeOf)))
	k, leafOf := x.Packing(p)
	var ways []fors.Choice
	k.Choices = func(group int, to int32) []fors.Choice {
		ways = x.Choices(leafOf[group], x.homeOf[to], ways[:0])
		return ways
	}
	k.Begin(blocks, uint64(try)+1)
	var late []fors.Late
	for n, shift := int32(len(x.homeOf)), int32(0); shift < n; shift++ {
		for i, a := range leafOf {
			d := (base[i] + shift + int32(try)) % n
			if alone := d == base[i] && d+1 == base[i+1]; !alone && x.ok(int(a), int(x.homeOf[d])) {
				late = append(late, fors.Late{Leaf: i, To: d})
			}
		}
	}
	k.Place(late)
	p.Blocks, p.To, p.Way = k.Blocks, k.To, k.Way
	return p
}

// Packing returns a pack without blocks for a plan, to which each group is a leaf of its own, and the
// groups' leaves.
func (t *Tree) Packing(p *Plan) (k *fors.Pack, leafOf []int32) {
	k = &fors.Pack{First: []int32{0}, Servers: int(p.Base[len(t.Leaves)]), Cables: t.cables(), Work: PackWork}
	for a := range t.Leaves {
		for s := p.First[a]; s < p.First[a+1]; s += int32(p.Group) {
			leafOf, k.First = append(leafOf, int32(a)), append(k.First, s+int32(p.Group))
		}
	}
	return k, leafOf
}

// Choices appends the ways between two leaves that live.
func (t *Tree) Choices(a, b int32, ways []fors.Choice) []fors.Choice {
	if a == b {
		return append(ways, fors.Choice{Cables: fors.NoCables, Way: -1})
	}
	A, B, lanes := &t.Leaves[a], &t.Leaves[b], t.Lanes()
	for j := range t.Planes() {
		way, end := lanes+j, lanes+j+1
		if A.Pod != B.Pod {
			way, end = t.First[j], t.First[j+1]
		}
		for ; way < end && A.Up[j] && B.Up[j]; way++ {
			if A.Pod == B.Pod || t.laneUp(A.Pod, way) && t.laneUp(B.Pod, way) {
				ways = append(ways, fors.Choice{Cables: t.passes(a, b, int16(way)), Way: int16(way)})
			}
		}
	}
	return ways
}

// passes returns the cables of a way between two leaves, by number: out of leaves and into them, by
// plane, out of pods and into them, by lane.
func (t *Tree) passes(a, b int32, way int16) fors.Cables {
	of, leaves, planes, lanes := fors.NoCables, int32(len(t.Leaves)), int32(t.Planes()), int32(t.Lanes())
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
