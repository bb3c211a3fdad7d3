package pods

import "math/rand/v2"

// relabelled is a tree with its pods, leaves, planes and lanes in another order: another
// tree for the planner, whose colourings and searches go by these orders.
type relabelled struct {
	*Tree
	leaf  []int   // [leaf] the leaf of the original
	plane []int   // [plane] that of the original
	lane  []int16 // [lane] that of the original
}

// relabel draws another order.
func (t *Tree) relabel(rng *rand.Rand) *relabelled {
	r := &relabelled{Tree: &Tree{Pods: t.Pods, First: []int{0}, Up: make([]bool, len(t.Up))}, plane: rng.Perm(t.Planes())}
	for _, j := range r.plane {
		lanes := t.First[j+1] - t.First[j]
		for _, k := range rng.Perm(lanes) {
			r.lane = append(r.lane, int16(t.First[j]+k))
		}
		r.First = append(r.First, r.First[len(r.First)-1]+lanes)
	}
	for p, of := range rng.Perm(t.Pods) {
		for k, was := range r.lane {
			r.Up[p*len(r.lane)+k] = t.laneUp(of, int(was))
		}
		var leaves []int
		for l := range t.Leaves {
			if t.Leaves[l].Pod == of {
				leaves = append(leaves, l)
			}
		}
		for _, i := range rng.Perm(len(leaves)) {
			was := &t.Leaves[leaves[i]]
			l := Leaf{Pod: p, Slots: was.Slots}
			for _, j := range r.plane {
				l.Up = append(l.Up, was.Up[j])
			}
			r.leaf, r.Leaves = append(r.leaf, leaves[i]), append(r.Leaves, l)
		}
	}
	return r
}

// original returns a plan for single senders on a relabelled tree as one of the tree
// itself, of which one is given.
func (r *relabelled) original(p, like *Plan) *Plan {
	base := like.Base
	servers := make([]int32, base[len(base)-1])
	for l, was := range r.leaf {
		for i := p.Base[l]; i < p.Base[l+1]; i++ {
			servers[i] = base[was] + i - p.Base[l]
		}
	}
	q := *p
	q.Base, q.First, q.Unreachable = base, base, like.Unreachable
	q.To, q.Way = make([]int32, len(p.To)), make([]int16, len(p.Way))
	n := len(servers)
	for at, d := range p.To {
		to := at - at%n + int(servers[at%n])
		if q.To[to], q.Way[to] = Idle, -1; d == Idle {
			continue
		}
		way := p.Way[at]
		if lanes := int16(len(r.lane)); way >= lanes {
			way = lanes + int16(r.plane[way-lanes])
		} else if way >= 0 {
			way = r.lane[way]
		}
		q.To[to], q.Way[to] = servers[d], way
	}
	return &q
}
