package liquid

import (
	"fmt"
	"slices"
)

// Link is the number of a directed link of a network.
type Link int32

// Transfer is the number of a transfer of a traffic.
type Transfer int32

// Pair is the source and the destination of a transfer, as numbers of nodes.
type Pair struct{ Src, Dst int32 }

// Traffic is a set of transfers over a network of directed links. Only SetRates
// changes it.
type Traffic struct {
	links  int
	pairs  []Pair  // [transfer]
	first  []int32 // [transfer] the start of its path in path, and one more
	path   []Link
	users  []int32 // [link] the start of its transfers in used, and one more
	used   []Transfer
	class  []uint8   // [transfer] index into rates, by its slowest link
	rates  []float64 // ascending: the class of the slowest transfers comes first
	lambda int
}

// maxClasses bounds the number of different speeds of transfers, and maxRatio the ratio
// of the highest to the lowest.
const (
	maxClasses = 64
	maxRatio   = 1e6
)

// NewTraffic makes a traffic of the transfers with the given pairs and paths,
// both [transfer], over links 0 … links−1. A path is the set of a transfer's
// links, in any order. It fails on a path that is empty, has a link twice or one
// that does not exist.
func NewTraffic(links int, pairs []Pair, paths [][]Link) (*Traffic, error) {
	if len(pairs) != len(paths) {
		return nil, fmt.Errorf("make a traffic: %d pairs have %d paths", len(pairs), len(paths))
	}
	t := &Traffic{links: links, pairs: slices.Clone(pairs), first: make([]int32, 1, len(paths)+1)}
	for i, path := range paths {
		if len(path) == 0 {
			return nil, fmt.Errorf("make a traffic: transfer %d, %d→%d, uses no link", i, pairs[i].Src, pairs[i].Dst)
		}
		start := len(t.path)
		t.path = append(t.path, path...)
		own := t.path[start:]
		slices.Sort(own)
		for j, l := range own {
			if l < 0 || int(l) >= links {
				return nil, fmt.Errorf("make a traffic: transfer %d, %d→%d, uses link %d of %d", i, pairs[i].Src, pairs[i].Dst, l, links)
			}
			if j > 0 && own[j-1] == l {
				return nil, fmt.Errorf("make a traffic: transfer %d, %d→%d, uses link %d twice", i, pairs[i].Src, pairs[i].Dst, l)
			}
		}
		t.first = append(t.first, int32(len(t.path)))
	}
	t.class, t.rates = make([]uint8, len(paths)), []float64{1}
	t.index()
	return t, nil
}

// index lists the transfers of every link, and finds the duration.
func (t *Traffic) index() {
	t.users = make([]int32, t.links+1)
	for _, l := range t.path {
		t.users[l+1]++
	}
	t.lambda = 0
	for l := range t.links {
		t.lambda = max(t.lambda, int(t.users[l+1]))
		t.users[l+1] += t.users[l]
	}
	t.used = make([]Transfer, len(t.path))
	next := slices.Clone(t.users)
	for x := range t.Len() {
		for _, l := range t.Path(Transfer(x)) {
			t.used[next[l]] = Transfer(x)
			next[l]++
		}
	}
}

// SetRates sets the speeds of the links, [link], in any unit. The slowest link of a
// transfer determines its time. SetRates fails on a speed that is not positive, if
// transfers have more than 64 different speeds, or if the highest is more than a
// million times the lowest.
func (t *Traffic) SetRates(rate []float64) error {
	if len(rate) != t.links {
		return fmt.Errorf("set the speeds of %d links: there are %d", len(rate), t.links)
	}
	slowest := make([]float64, t.Len())
	for x := range slowest {
		for _, l := range t.Path(Transfer(x)) {
			if !(rate[l] > 0) {
				return fmt.Errorf("set the speeds of links: link %d has speed %g, which is not positive", l, rate[l])
			}
			if slowest[x] == 0 || rate[l] < slowest[x] {
				slowest[x] = rate[l]
			}
		}
	}
	rates := slices.Clone(slowest)
	slices.Sort(rates)
	rates = slices.Compact(rates)
	if len(rates) > maxClasses {
		return fmt.Errorf("set the speeds of links: transfers have %d different ones, want at most %d", len(rates), maxClasses)
	}
	if n := len(rates); n > 0 && !(rates[n-1] <= maxRatio*rates[0]) {
		return fmt.Errorf("set the speeds of links: transfers have speeds from %g to %g: at most a factor of %g lies between", rates[0], rates[n-1], maxRatio)
	}
	for x, r := range slowest {
		i, _ := slices.BinarySearch(rates, r)
		t.class[x] = uint8(i)
	}
	t.rates = rates
	return nil
}

// Len is the number of transfers, #(X) in the paper.
func (t *Traffic) Len() int { return len(t.first) - 1 }

// Links is the number of links of the network, used or not.
func (t *Traffic) Links() int { return t.links }

// Pair is the source and destination of transfer x.
func (t *Traffic) Pair(x Transfer) Pair { return t.pairs[x] }

// Path returns the links of transfer x, ascending.
func (t *Traffic) Path(x Transfer) []Link { return t.path[t.first[x]:t.first[x+1]] }

// Users returns the transfers that use link l, ascending.
func (t *Traffic) Users(l Link) []Transfer { return t.used[t.users[l]:t.users[l+1]] }

// Load is the number of transfers that use link l.
func (t *Traffic) Load(l Link) int { return int(t.users[l+1] - t.users[l]) }

// Duration is Λ(X), the largest load of a link: no schedule has fewer steps.
func (t *Traffic) Duration() int { return t.lambda }

// Bottlenecks returns the links with the largest load, ascending.
func (t *Traffic) Bottlenecks() []Link {
	var b []Link
	for l := range t.links {
		if t.lambda > 0 && t.Load(Link(l)) == t.lambda {
			b = append(b, Link(l))
		}
	}
	return b
}

// LiquidThroughput is #(X)/Λ(X), in units of the throughput of one link; 0
// without transfers.
func (t *Traffic) LiquidThroughput() float64 {
	if t.lambda == 0 {
		return 0
	}
	return float64(t.Len()) / float64(t.lambda)
}

// Uniform reports whether all transfers take the same time.
func (t *Traffic) Uniform() bool { return len(t.rates) == 1 }

// maxLooks bounds the sum of the squared loads of a traffic whose conflicts are
// counted: some seconds.
const maxLooks = 1 << 30

// ConflictEdges is the number of edges of the conflict graph, whose vertices are the
// transfers and whose edges join those that congest, or −1 if they are too many to
// count. Its time is proportional to the sum of the squared loads, and its memory to
// the number of transfers.
func (t *Traffic) ConflictEdges() int {
	looks := 0
	for l := range t.links {
		looks += t.Load(Link(l)) * t.Load(Link(l))
	}
	if looks > maxLooks {
		return -1
	}
	edges := 0
	degree := newDegrees(t)
	for x := range t.Len() {
		edges += degree.of(Transfer(x))
	}
	return edges / 2
}

// degrees finds the neighbours of transfers in the conflict graph, one transfer
// after the other.
type degrees struct {
	t    *Traffic
	mark []int32 // [transfer] the last transfer whose neighbour it is, plus 1
	near []Transfer
}

func newDegrees(t *Traffic) *degrees { return &degrees{t: t, mark: make([]int32, t.Len())} }

// neighbours returns the transfers that congest with x, each once. The next call
// overwrites the result.
func (d *degrees) neighbours(x Transfer) []Transfer {
	d.near = d.near[:0]
	d.mark[x] = int32(x) + 1
	for _, l := range d.t.Path(x) {
		for _, y := range d.t.Users(l) {
			if d.mark[y] != int32(x)+1 {
				d.mark[y] = int32(x) + 1
				d.near = append(d.near, y)
			}
		}
	}
	return d.near
}

func (d *degrees) of(x Transfer) int { return len(d.neighbours(x)) }
