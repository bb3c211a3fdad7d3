package pods

import (
	"context"
	"math/rand/v2"
	"slices"
)

// Small trees are so coarse that the colourings of pods and leaves may miss the bound where
// a plan at it exists. There the tree is planned in other orders of its parts, and a search
// moves the transfers of each plan for single senders about until one phase less will do,
// and again (tabu search, as in TabuCol of Hertz and de Werra, 1987, with a way to choose
// besides the phase).

const (
	// squeezeTransfers is how many transfers a plan may have that is searched.
	squeezeTransfers = 600
	// squeezeOrders is in how many orders such a tree is planned that is a phase over its
	// bound, with more phases in as many times fewer; squeezeTries how often a phase less
	// is searched for in each, and squeezeMoves how many moves that may take.
	squeezeOrders = 40
	squeezeTries  = 3
	squeezeMoves  = 2000
)

// squeeze shortens a plan for single senders as far as it can.
func (x *instance) squeeze(ctx context.Context, p *Plan) (*Plan, error) {
	n := len(x.homeOf)
	if p == nil || p.Group != 1 || p.To == nil || p.Gap() <= 0 || n*(n-1) > squeezeTransfers {
		return p, nil
	}
	best, err := x.search(ctx, p)
	rng := rand.New(rand.NewPCG(uint64(n), uint64(p.LowerBound)))
	for order := 0; err == nil && best.Gap() > 0 && order*best.Gap() < squeezeOrders; order++ {
		var q *Plan
		r := x.relabel(rng)
		y := newInstance(r.Tree, 1, x.workers)
		if q, err = y.podsFirst(ctx, p.Bounds); err == nil {
			q, err = y.search(ctx, q)
		}
		if err == nil && q.Blocks < best.Blocks {
			best = r.original(q, p)
		}
	}
	return best, err
}

// search looks for plans of fewer phases.
func (x *instance) search(ctx context.Context, p *Plan) (*Plan, error) {
	w := x.newSqueezer(p)
	for tries := 0; p.Gap() > 0 && tries < squeezeTries; tries++ {
		found, err := w.without(ctx)
		if err != nil {
			return nil, err
		}
		if found {
			p, tries = w.plan(p), -1
		}
	}
	return p, nil
}

// squeezed is a transfer: its place, and its possible ways.
type squeezed struct {
	src, dst int32
	ways     []route
	phase    int32
	way      int32 // index into ways
}

// route is a way with the resources that a transfer by it takes in its phase.
type route struct {
	way int16
	of  []int32
}

// squeezer moves transfers about. load counts, as [resource·phases + phase], how many
// transfers take a resource: a server's turn to send or to receive, a directed cable.
type squeezer struct {
	all    []squeezed
	phases int32
	over   int32 // Σ (load − 1) where that is positive
	most   int32 // resources
	load   []uint8
	taboo  []int32 // [transfer·options + phase·ways + way] the move until which it may not go there
	ways   int32   // the most that a transfer has
	rng    *rand.Rand
}

func (x *instance) newSqueezer(p *Plan) *squeezer {
	n, planes, lanes := int32(len(x.homeOf)), int32(x.Planes()), int32(x.Lanes())
	leaves := int32(len(x.Leaves))
	out, up := 2*n, 2*n+2*leaves*planes
	w := &squeezer{phases: int32(p.Blocks), most: up + 2*int32(x.Pods)*lanes, rng: rand.New(rand.NewPCG(uint64(n), uint64(p.Blocks)))}
	slots := p.First[len(p.First)-1]
	for at, d := range p.To {
		s := int32(at) % slots
		if d == Idle || d == s {
			continue
		}
		a, b := x.homeOf[s], x.homeOf[d]
		u := squeezed{src: s, dst: d, phase: int32(at) / slots}
		add := func(way int16, of ...int32) {
			if way == p.Way[at] {
				u.way = int32(len(u.ways))
			}
			u.ways = append(u.ways, route{way, append([]int32{s, n + d}, of...)})
		}
		A, B := &x.Leaves[a], &x.Leaves[b]
		for j := range planes {
			if a == b || !A.Up[j] || !B.Up[j] {
				continue
			}
			leave, enter := out+a*planes+j, out+(leaves+b)*planes+j
			if A.Pod == B.Pod {
				add(int16(lanes+j), leave, enter)
				continue
			}
			for k := x.First[j]; k < x.First[j+1]; k++ {
				if x.laneUp(A.Pod, k) && x.laneUp(B.Pod, k) {
					add(int16(k), leave, enter, up+int32(A.Pod)*lanes+int32(k), up+int32(x.Pods+B.Pod)*lanes+int32(k))
				}
			}
		}
		if a == b {
			add(-1)
		}
		w.ways = max(w.ways, int32(len(u.ways)))
		w.all = append(w.all, u)
	}
	return w
}

// without looks for a plan of one phase less.
func (w *squeezer) without(ctx context.Context) (found bool, err error) {
	was := slices.Clone(w.all)
	w.phases--
	w.load, w.over = make([]uint8, w.most*w.phases), 0
	w.taboo = make([]int32, int32(len(w.all))*w.phases*w.ways)
	for i := range w.all {
		u := &w.all[i]
		if u.phase == w.phases {
			u.phase = w.rng.Int32N(w.phases)
		}
		w.take(u, 1)
	}
	var hit []int
	for move := int32(1); w.over > 0 && move <= squeezeMoves; move++ {
		if move%256 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		hit = hit[:0]
		for i := range w.all {
			if w.conflicts(&w.all[i]) {
				hit = append(hit, i)
			}
		}
		w.move(hit, move)
	}
	if w.over > 0 {
		w.all, w.phases = was, w.phases+1
		return false, nil
	}
	return true, nil
}

// take counts a transfer in its place, or with −1 takes it out.
func (w *squeezer) take(u *squeezed, by int) {
	for _, r := range u.ways[u.way].of {
		at := r*w.phases + u.phase
		if by > 0 {
			if w.load[at] > 0 {
				w.over++
			}
			w.load[at]++
		} else {
			w.load[at]--
			if w.load[at] > 0 {
				w.over--
			}
		}
	}
}

// conflicts reports whether a transfer shares a resource with another.
func (w *squeezer) conflicts(u *squeezed) bool {
	for _, r := range u.ways[u.way].of {
		if w.load[r*w.phases+u.phase] > 1 {
			return true
		}
	}
	return false
}

// move makes the best move of the transfers that are in conflict: the first of equals in a
// random order.
func (w *squeezer) move(hit []int, now int32) {
	best, ties := int32(1<<30), int32(0)
	var at int
	var phase, way int32
	before := w.over
	for _, i := range hit {
		u := &w.all[i]
		w.take(u, -1)
		for f := range w.phases {
			if w.load[u.src*w.phases+f] > 1 {
				continue
			}
			for k := range u.ways {
				cost := w.over
				for _, r := range u.ways[k].of {
					if w.load[r*w.phases+f] > 0 {
						cost++
					}
				}
				if cost > best || f == u.phase && int32(k) == u.way {
					continue
				}
				if w.taboo[(int32(i)*w.phases+f)*w.ways+int32(k)] > now && cost >= before {
					continue
				}
				if cost < best {
					best, ties = cost, 0
				}
				if ties++; w.rng.Int32N(ties) == 0 {
					at, phase, way = i, f, int32(k)
				}
			}
		}
		w.take(u, 1)
	}
	if ties == 0 {
		return
	}
	u := &w.all[at]
	w.taboo[(int32(at)*w.phases+u.phase)*w.ways+u.way] = now + int32(len(hit))*6/10 + w.rng.Int32N(10) + 1
	w.take(u, -1)
	u.phase, u.way = phase, way
	w.take(u, 1)
}

// plan lays the transfers out.
func (w *squeezer) plan(like *Plan) *Plan {
	p := *like
	slots := p.First[len(p.First)-1]
	p.Blocks = int(w.phases)
	p.To, p.Way = make([]int32, slots*w.phases), make([]int16, slots*w.phases)
	for i := range p.To {
		p.To[i], p.Way[i] = Idle, -1
	}
	for i := range w.all {
		u := &w.all[i]
		p.To[u.phase*slots+u.src], p.Way[u.phase*slots+u.src] = u.dst, u.ways[u.way].way
	}
	return &p
}
