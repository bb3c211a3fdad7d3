package verify

import (
	"math/bits"

	"github.com/forsd/forsd/topology"
)

// pairs is a set of ordered pairs of servers. A server and itself count as seen.
type pairs struct {
	n    int
	bits []uint64 // [source·n + destination]
}

func newPairs(n int) pairs {
	p := pairs{n, make([]uint64, (n*n+63)/64)}
	for s := range n {
		p.see(int32(s), int32(s))
	}
	return p
}

// see adds a pair, and is false if it has been added before.
func (p *pairs) see(s, d int32) bool {
	bit := int(s)*p.n + int(d)
	word, mask := &p.bits[bit>>6], uint64(1)<<(bit&63)
	fresh := *word&mask == 0
	*word |= mask
	return fresh
}

// others adds the pairs of servers of different exchanges, which are not missing, and returns one
// that has been added before; ok is false if there is none.
func (p *pairs) others(t *topology.Common) (s, d int32, ok bool) {
	for i := 0; len(t.Exchanges) > 1 && i < p.n*p.n; i++ {
		if a, b := i/p.n, i%p.n; !t.Together(a, b) && !p.see(int32(a), int32(b)) {
			s, d, ok = int32(a), int32(b), true
		}
	}
	return s, d, ok
}

// missing returns the first pair that has not been added; ok is false if there is none.
func (p *pairs) missing() (s, d int32, ok bool) {
	for i, word := range p.bits {
		if bit := i<<6 + bits.TrailingZeros64(^word); ^word != 0 && bit < p.n*p.n {
			return int32(bit / p.n), int32(bit % p.n), true
		}
	}
	return s, d, false
}
