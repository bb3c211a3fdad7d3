package papers

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forsd/forsd/liquid"
)

// Direct is a topology whose nodes forward messages for others, with the routes of an
// all-to-all exchange.
type Direct struct {
	Name      string
	Published string // a published time, or ""

	nodes  int
	relays []int // nodes that send nothing of their own
	wires  []wire
	routes [][]liquid.Link // [source·nodes + destination]; nil: balanced shortest ones
}

// wire is a link from a node to another at a speed.
type wire struct {
	from, to int
	rate     float64
}

// both adds a link each way, as many as count.
func (d *Direct) both(u, v, count int, rate float64) {
	for range count {
		d.wires = append(d.wires, wire{u, v, rate}, wire{v, u, rate})
	}
}

// Directs are topologies of papers about collectives on links between nodes.
func Directs() []*Direct {
	return []*Direct{
		cubeMesh(), ndv2(false), ndv2(true), dgx2(),
		complete44(), hypercube(3), hypercube(5), genKautz(4, 20), genKautz(4, 27), genKautz(4, 64),
		torus(4, 4), torus(3, 3, 3), torus(8, 8), dragonfly(4, 2),
	}
}

// cubeLinks are the NVLinks of a DGX-1 with V100s, as published: pairs with two, with one.
var cubeLinks = [2][][2]int{
	{{0, 1}, {0, 4}, {1, 3}, {2, 3}, {2, 6}, {4, 5}, {5, 7}, {6, 7}},
	{{0, 2}, {0, 3}, {1, 2}, {1, 5}, {3, 7}, {4, 6}, {4, 7}, {5, 6}},
}

func (d *Direct) addCube(first int) {
	for i, pairs := range cubeLinks {
		for _, p := range pairs {
			d.both(first+p[0], first+p[1], 2-i, 25)
		}
	}
}

func cubeMesh() *Direct {
	d := &Direct{Name: "DGX-1, hybrid cube mesh", nodes: 8}
	d.addCube(0)
	return d
}

// ndv2 is two of these with a NIC each way between them, as TE-CCL's topology has it; there
// the first GPU of its output is a relay.
func ndv2(relay bool) *Direct {
	d := &Direct{Name: "NDv2, 2 chassis", nodes: 16, Published: "64.2 (TACCL)"}
	if relay {
		d.Name, d.Published, d.relays = "NDv2, 15 GPUs", "59 (TE-CCL)", []int{0}
	}
	d.addCube(0)
	d.addCube(8)
	d.wires = append(d.wires, wire{8, 1, 12.5}, wire{0, 9, 12.5})
	return d
}

// dgx2 is two chassis of 16 GPUs on a switch each, with eight NICs each way between them.
// The links of the switch, 125 GB/s, count as four.
func dgx2() *Direct {
	d := &Direct{Name: "DGX-2, 2 chassis", nodes: 34, relays: []int{0, 17}, Published: "34 (TE-CCL)"}
	for chassis := range 2 {
		for g := 1; g <= 16; g++ {
			d.both(17*chassis, 17*chassis+g, 4, 31.25)
			if g%2 == 0 {
				d.wires = append(d.wires, wire{17*chassis + g, 17*(1-chassis) + g - 1, 12.5})
			}
		}
	}
	return d
}

func complete44() *Direct {
	d := &Direct{Name: "complete bipartite 4, 4", nodes: 8}
	for u := range 4 {
		for v := range 4 {
			d.both(u, 4+v, 1, 1)
		}
	}
	return d
}

// hypercube has the routes of one bit after another.
func hypercube(dims int) *Direct {
	d := &Direct{Name: fmt.Sprintf("hypercube of %d", 1<<dims), nodes: 1 << dims}
	for u := range d.nodes {
		for b := range dims {
			d.wires = append(d.wires, wire{u, u ^ 1<<b, 1})
		}
	}
	d.routes = make([][]liquid.Link, d.nodes*d.nodes)
	for i := range d.routes {
		u, dst := i/d.nodes, i%d.nodes
		for b := range dims {
			if (u^dst)>>b&1 == 1 {
				d.routes[i] = append(d.routes[i], liquid.Link(u*dims+b))
				u ^= 1 << b
			}
		}
	}
	return d
}

// genKautz is the generalised Kautz digraph; where n = k² + k, the Kautz digraph.
func genKautz(k, n int) *Direct {
	d := &Direct{Name: fmt.Sprintf("generalised Kautz, degree %d", k), nodes: n}
	for u := range n {
		for r := 1; r <= k; r++ {
			if v := ((-k*u-r)%n + n) % n; v != u {
				d.wires = append(d.wires, wire{u, v, 1})
			}
		}
	}
	return d
}

// torus has the routes of one dimension after another; half way round it goes up from every
// other node.
func torus(sides ...int) *Direct {
	d := &Direct{Name: fmt.Sprint("torus of ", sides), nodes: 1}
	for _, s := range sides {
		d.nodes *= s
	}
	link := map[[3]int]liquid.Link{} // node, dimension, way
	next := func(u, dim, way int) int {
		below := 1
		for _, s := range sides[:dim] {
			below *= s
		}
		at := u / below % sides[dim]
		return u + ((at+way+sides[dim])%sides[dim]-at)*below
	}
	for u := range d.nodes {
		for dim := range sides {
			for _, way := range []int{1, -1} {
				link[[3]int{u, dim, way}] = liquid.Link(len(d.wires))
				d.wires = append(d.wires, wire{u, next(u, dim, way), 1})
			}
		}
	}
	d.routes = make([][]liquid.Link, d.nodes*d.nodes)
	for src := range d.nodes {
		parity, rest := 0, src
		for _, s := range sides {
			parity, rest = parity+rest%s, rest/s
		}
		for dst := range d.nodes {
			u, a, b := src, src, dst
			for dim, s := range sides {
				go1 := ((b%s-a%s)%s + s) % s
				way := 1
				if 2*go1 > s || 2*go1 == s && parity%2 == 1 {
					go1, way = s-go1, -1
				}
				for range go1 {
					d.routes[src*d.nodes+dst] = append(d.routes[src*d.nodes+dst], link[[3]int{u, dim, way}])
					u = next(u, dim, way)
				}
				a, b = a/s, b/s
			}
		}
	}
	return d
}

// dragonfly has groups of routers that are all joined, and one link between any two groups.
func dragonfly(routers, global int) *Direct {
	groups := routers*global + 1
	d := &Direct{Name: fmt.Sprintf("dragonfly, %d groups of %d", groups, routers), nodes: routers * groups}
	for g := range groups {
		for u := range routers {
			for v := range u {
				d.both(g*routers+u, g*routers+v, 1, 1)
			}
		}
		for other := range g { // link g−1 of the other leads here, link other of this one there
			d.both(g*routers+other/global, other*routers+(g-1)/global, 1, 1)
		}
	}
	return d
}

// traffic is the exchange of all to all.
func (d *Direct) traffic() (*liquid.Traffic, error) {
	var pairs []liquid.Pair
	var paths [][]liquid.Link
	routes := d.routes
	if routes == nil {
		routes = d.balance()
	}
	for src := range d.nodes {
		for dst := range d.nodes {
			if src != dst && !slices.Contains(d.relays, src) && !slices.Contains(d.relays, dst) {
				path := slices.Clone(routes[src*d.nodes+dst])
				slices.Sort(path)
				pairs, paths = append(pairs, liquid.Pair{Src: int32(src), Dst: int32(dst)}), append(paths, path)
			}
		}
	}
	t, err := liquid.NewTraffic(len(d.wires), pairs, paths)
	if err != nil {
		return nil, err
	}
	rates := make([]float64, len(d.wires))
	for i, w := range d.wires {
		rates[i] = w.rate
	}
	return t, t.SetRates(rates)
}

// sweeps is how often every route is chosen.
const sweeps = 30

// balance chooses shortest routes, one after the other, over the links with the least load for
// their speed, in several sweeps, and returns the routes of the best one.
func (d *Direct) balance() [][]liquid.Link {
	n := d.nodes
	out := make([][]int, n)
	for i, w := range d.wires {
		out[w.from] = append(out[w.from], i)
	}
	far := d.distances()
	load := make([]float64, len(d.wires)) // time
	add := func(path []liquid.Link, sign float64) {
		for _, l := range path {
			load[l] += sign / d.wires[l].rate
		}
	}
	routes := make([][]liquid.Link, n*n)
	best, least := routes, math.Inf(1)
	for range sweeps {
		for i := range n * n {
			src, dst := i*7919%(n*n)/n, i*7919%(n*n)%n // in an order without neighbours
			if src == dst || slices.Contains(d.relays, src) || slices.Contains(d.relays, dst) {
				continue
			}
			at := src*n + dst
			add(routes[at], -1)
			routes[at] = d.route(src, dst, out, far, load)
			add(routes[at], 1)
		}
		if most := slices.Max(load); most < least {
			best, least = slices.Clone(routes), most
		}
	}
	return best
}

// route is a shortest path with the least cost of its links; the cost of a link grows faster
// than its load.
func (d *Direct) route(src, dst int, out [][]int, far [][]int, load []float64) []liquid.Link {
	top := slices.Max(load) + 1/d.wires[0].rate
	cost := map[int]float64{dst: 0}
	by := map[int]int{}
	var walk func(u int) float64
	walk = func(u int) float64 {
		if c, known := cost[u]; known {
			return c
		}
		cost[u] = math.Inf(1)
		for _, l := range out[u] {
			w := d.wires[l]
			if far[w.to][dst] != far[u][dst]-1 {
				continue
			}
			if c := math.Pow((load[l]+1/w.rate)/top, 12) + walk(w.to); c < cost[u] {
				cost[u], by[u] = c, l
			}
		}
		return cost[u]
	}
	walk(src)
	var path []liquid.Link
	for u := src; u != dst; u = d.wires[by[u]].to {
		path = append(path, liquid.Link(by[u]))
	}
	return path
}

// distances are the hops from every node to every other.
func (d *Direct) distances() [][]int {
	far := make([][]int, d.nodes)
	for u := range far {
		far[u] = slices.Repeat([]int{d.nodes}, d.nodes)
		far[u][u] = 0
	}
	for changed := true; changed; {
		changed = false
		for _, w := range d.wires {
			for v := range far[w.to] {
				if far[w.to][v]+1 < far[w.from][v] {
					far[w.from][v], changed = far[w.to][v]+1, true
				}
			}
		}
	}
	return far
}

// bound is a lower bound for any routes, in transfers over the slowest link: over the links
// between the two halves of the nodes, and, if all links are alike, over all links.
func (d *Direct) bound(slowest float64) float64 {
	half := d.nodes / 2
	senders := [2]int{half, d.nodes - half}
	for _, r := range d.relays {
		senders[r/half]--
	}
	capacity, all, alike := [2]float64{}, 0, true
	for _, w := range d.wires {
		alike = alike && w.rate == slowest
		if a, b := min(1, w.from/half), min(1, w.to/half); a != b {
			capacity[a] += w.rate / slowest
		}
	}
	for _, row := range d.distances() {
		for _, hops := range row {
			all += hops
		}
	}
	bound := float64(senders[0]*senders[1]) / min(capacity[0], capacity[1])
	if alike && len(d.relays) == 0 {
		bound = max(bound, float64(all)/float64(len(d.wires)))
	}
	return bound
}

// DirectRow is liquid's result for a topology. Times are in transfers over the slowest link.
type DirectRow struct {
	Name       string        `json:"topology"`
	Nodes      int           `json:"nodes"` // that send
	Links      int           `json:"links"`
	Transfers  int           `json:"transfers"`
	AnyRoutes  float64       `json:"bound_of_any_routes"`
	Bound      float64       `json:"bound"` // Λ, for the routes
	Time       float64       `json:"time"`
	Steps      int           `json:"steps"`
	Liquid     bool          `json:"liquid"`
	Method     liquid.Method `json:"method"`
	Dsatur     float64       `json:"dsatur"`
	RoundRobin float64       `json:"round_robin"`
	Published  string        `json:"published,omitempty"`
}

// Schedule schedules the exchange within a time. Every schedule is verified.
func (d *Direct) Schedule(ctx context.Context, within time.Duration) (*DirectRow, error) {
	t, err := d.traffic()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	slowest, fastest := d.wires[0].rate, d.wires[0].rate
	for _, w := range d.wires {
		slowest, fastest = min(slowest, w.rate), max(fastest, w.rate)
	}
	unit := slowest / fastest
	row := &DirectRow{Name: d.Name, Nodes: d.nodes - len(d.relays), Links: len(d.wires), Transfers: t.Len(), AnyRoutes: d.bound(slowest), Bound: t.TimeBound() * unit, Published: d.Published}
	for _, x := range []struct {
		method liquid.Method
		time   *float64
	}{{liquid.MethodAuto, &row.Time}, {liquid.MethodDsatur, &row.Dsatur}, {liquid.MethodRoundRobin, &row.RoundRobin}} {
		limited, cancel := context.WithTimeout(ctx, within)
		r, err := liquid.Make(limited, t, liquid.Options{Method: x.method})
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%s by %s: %w", d.Name, x.method, err)
		}
		*x.time = t.Time(r.Schedule) * unit
		if x.method == liquid.MethodAuto {
			row.Steps, row.Liquid, row.Method = len(r.Schedule), r.Liquid, r.Method
		}
	}
	return row, nil
}
