package tomography

import (
	"slices"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
)

// mostLooks is how often clocks are compared.
const mostLooks = 4

// findApart is find where each host has a clock. Slow transfers shift offsets, so that clocks are
// compared again without the transfers that a slow part explains, until the same parts are
// named. It also returns the transfers with their times by one clock.
func findApart(transfers []Transfer, parts []Part) (by []Transfer, s *search, r *api.Measured, err error) {
	same := func(a, b api.SlowPart) bool { return a.Name == b.Name }
	left := slices.Repeat([]bool{true}, len(transfers))
	c := newClocks(transfers)
	for range mostLooks {
		before := r
		by = c.synchronised(transfers, left)
		if s, r, err = find(by, parts); err != nil || before != nil && slices.EqualFunc(before.Slow, r.Slow, same) {
			break
		}
		left = s.left
	}
	return by, s, r, err
}

// clocks are the hosts of transfers, with the pairs of hosts that have sent to each other.
type clocks struct {
	peers    [][]peer // [host]
	src, dst []int32  // [transfer] hosts
}

// peer is another host with which a host has exchanged.
type peer struct {
	host        int32
	apart       float64 // half of how much longer it takes from there than to there
	there, back []int32 // transfers
}

func newClocks(transfers []Transfer) *clocks {
	c := &clocks{src: make([]int32, len(transfers)), dst: make([]int32, len(transfers))}
	number := map[ib.GUID]int32{}
	host := func(g ib.GUID) int32 {
		n, known := number[g]
		if !known {
			n = int32(len(number))
			number[g] = n
		}
		return n
	}
	pairs := map[[2]int32][]int32{}
	for i := range transfers {
		c.src[i], c.dst[i] = host(transfers[i].Src), host(transfers[i].Dst)
		p := [2]int32{c.src[i], c.dst[i]}
		pairs[p] = append(pairs[p], int32(i))
	}
	took := func(list []int32) float64 {
		ys := make([]float64, len(list))
		for i, n := range list {
			ys[i] = transfers[n].Took
		}
		return median(ys)
	}
	c.peers = make([][]peer, len(number))
	for i := range transfers { // in their order, for the same result each time
		p := [2]int32{c.src[i], c.dst[i]}
		to, back := pairs[p], pairs[[2]int32{p[1], p[0]}]
		if to[0] == int32(i) && back != nil {
			c.peers[p[1]] = append(c.peers[p[1]], peer{p[0], (took(to) - took(back)) / 2, to, back})
		}
	}
	return c
}

// synchronised removes the offsets of clocks from times that were taken by the clock of the
// sender at the beginning, and by that of the receiver at the end. A clock that is ahead
// lengthens what its host receives by as much as it shortens what it sends; the median of half
// the difference over a host's peers is its offset. Pairs of which a transfer is not left are
// left out, unless a host has no others. A host that is slow in one direction alone is seen as
// slow by half of that in both.
func (c *clocks) synchronised(transfers []Transfer, left []bool) []Transfer {
	gone := func(i int32) bool { return !left[i] }
	peers := make([][]peer, len(c.peers))
	for host, all := range c.peers {
		peers[host] = slices.DeleteFunc(slices.Clone(all), func(p peer) bool { return slices.ContainsFunc(p.there, gone) || slices.ContainsFunc(p.back, gone) })
		if len(peers[host]) == 0 {
			peers[host] = all
		}
	}
	offset := c.first()
	const rounds = 6 // the offsets of peers are those of the round before
	for range rounds {
		next := make([]float64, len(offset))
		for host, list := range peers {
			apart := make([]float64, len(list))
			for i := range list {
				apart[i] = list[i].apart + offset[list[i].host]
			}
			next[host] = (offset[host] + median(apart)) / 2
		}
		offset = next
	}
	by := slices.Clone(transfers)
	for i := range by {
		by[i].Took -= offset[c.dst[i]] - offset[c.src[i]]
	}
	return by
}

// first returns offsets by one peer each.
func (c *clocks) first() []float64 {
	offset, known := make([]float64, len(c.peers)), make([]bool, len(c.peers))
	for from := range c.peers {
		if known[from] {
			continue
		}
		known[from] = true
		for queue := []int32{int32(from)}; len(queue) > 0; queue = queue[1:] {
			at := queue[0]
			for i := range c.peers[at] {
				if p := &c.peers[at][i]; !known[p.host] {
					known[p.host], offset[p.host] = true, offset[at]-p.apart
					queue = append(queue, p.host)
				}
			}
		}
	}
	return offset
}
