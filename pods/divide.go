package pods

import (
	"context"

	"github.com/forsd/forsd/fors"
)

// division is how the units of every two pods are divided: z over lanes, own, within a pod,
// over planes.
type division struct {
	y       []int32 // [(cell·cells + cell)·planes + plane]
	z       []int32 // [(p·pods + q)·lanes + lane]
	own     []int32 // [pod·planes + plane]
	between []int32 // [(p·pods + q)·planes + plane], the sums of z where they came first
}

// mostJointWays is how many ways the joint search over planes and lanes may have.
const mostJointWays = 1 << 22

// divide divides the units of every two cells over planes, so that no leaf or mid must
// carry more on a plane in a block than it has cables, and those of every two pods over the
// lanes of the planes. It divides over planes first, which is fast, and over all lanes at
// once if that does not lead to lanes. It reports whether it succeeded.
func (x *instance) divide(ctx context.Context) (*division, bool) {
	d, ok := x.dividePlanes(ctx, false)
	for j := 0; ok && j < x.Planes(); j++ {
		ok = x.divideTops(ctx, j, d)
	}
	if !ok && len(x.cells)*len(x.cells)*x.Lanes() <= mostJointWays {
		return x.dividePlanes(ctx, true)
	}
	return d, ok
}

// network returns the flow of the units of every two cells over planes or, jointly, over
// lanes, with the cells of its demands.
func network(x *instance, joint bool, units func(c, d int32) int32) (s *fors.Multiflow, pairs [][2]int32) {
	planes, lanes := int32(x.Planes()), int32(x.Lanes())
	cells, pods := int32(len(x.cells)), int32(x.Pods)
	over, room := planes, x.tops // of the pods
	if joint {
		over, room = lanes, make([]int32, pods*lanes)
		for i, up := range x.Up {
			if up {
				room[i] = 1
			}
		}
	}
	// Resources: cells out, cells in, by plane; pods out, pods in, by plane or lane.
	s = &fors.Multiflow{Room: make([]int32, 2*cells*planes+2*pods*over), Width: 4}
	outOf := func(c, j int32) int32 { return c*planes + j }
	into := func(c, j int32) int32 { return (cells+c)*planes + j }
	podOut := func(p, k int32) int32 { return 2*cells*planes + p*over + k }
	podIn := func(p, k int32) int32 { return 2*cells*planes + (pods+p)*over + k }
	for c := range cells {
		for j := range planes {
			if x.cells[c].up[j] {
				s.Room[outOf(c, j)], s.Room[into(c, j)] = x.cells[c].size()*x.blocks, x.cells[c].size()*x.blocks
			}
		}
	}
	for p := range pods {
		for k := range over {
			s.Room[podOut(p, k)], s.Room[podIn(p, k)] = room[p*over+k]*x.blocks, room[p*over+k]*x.blocks
		}
	}
	for c := range cells {
		for d := range cells {
			need := units(c, d)
			if need == 0 {
				continue
			}
			s.Demand(need)
			pairs = append(pairs, [2]int32{c, d})
			p, q := x.cells[c].pod, x.cells[d].pod
			for j := range planes {
				switch {
				case !x.cells[c].up[j] || !x.cells[d].up[j] || !x.joined[(p*pods+q)*planes+j]:
				case p == q:
					s.Way(outOf(c, j), into(d, j))
				case !joint:
					s.Way(outOf(c, j), into(d, j), podOut(p, j), podIn(q, j))
				default:
					for k := int32(x.First[j]); k < int32(x.First[j+1]); k++ {
						if x.Up[p*lanes+k] && x.Up[q*lanes+k] {
							s.Way(outOf(c, j), into(d, j), podOut(p, k), podIn(q, k))
						}
					}
				}
			}
		}
	}
	return s, pairs
}

// dividePlanes divides the units over planes or, jointly, over lanes.
func (x *instance) dividePlanes(ctx context.Context, joint bool) (*division, bool) {
	planes, lanes := int32(x.Planes()), int32(x.Lanes())
	cells, pods := int32(len(x.cells)), int32(x.Pods)
	s, pairs := network(x, joint, x.units)
	if !s.Solve(ctx) {
		return nil, false
	}
	d := &division{y: make([]int32, cells*cells*planes), z: make([]int32, x.Pods*x.Pods*x.Lanes()), own: make([]int32, x.Pods*x.Planes()),
		between: make([]int32, pods*pods*planes)}
	for i, pair := range pairs {
		p, q := x.cells[pair[0]].pod, x.cells[pair[1]].pod
		first, end := s.Ways(int32(i))
		for w := first; w < end; w++ {
			j := s.Resources(w)[0] % planes
			d.y[(pair[0]*cells+pair[1])*planes+j] += s.Y[w]
			switch {
			case p == q:
				d.own[p*planes+j] += s.Y[w]
			case joint:
				d.z[(p*pods+q)*lanes+(s.Resources(w)[2]-2*cells*planes)%lanes] += s.Y[w]
			default:
				d.between[(p*pods+q)*planes+j] += s.Y[w]
			}
		}
	}
	return d, true
}

// divideTops divides what the pods send one another on a plane over its lanes.
func (x *instance) divideTops(ctx context.Context, j int, d *division) bool {
	lanes := x.First[j+1] - x.First[j]
	s := &fors.Multiflow{Room: make([]int32, 2*x.Pods*lanes), Width: 2}
	for i := range s.Room {
		s.Room[i] = x.blocks
	}
	var ways [][3]int
	for p := range x.Pods {
		for q := range x.Pods {
			need := d.between[(p*x.Pods+q)*x.Planes()+j]
			if need == 0 {
				continue
			}
			s.Demand(need)
			for k := range lanes {
				if x.laneUp(p, x.First[j]+k) && x.laneUp(q, x.First[j]+k) {
					s.Way(int32(p*lanes+k), int32((x.Pods+q)*lanes+k))
					ways = append(ways, [3]int{p, q, x.First[j] + k})
				}
			}
		}
	}
	if !s.Solve(ctx) {
		return false
	}
	for w, to := range ways {
		d.z[(to[0]*x.Pods+to[1])*x.Lanes()+to[2]] = s.Y[w]
	}
	return true
}
