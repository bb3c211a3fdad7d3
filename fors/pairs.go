package fors

import "math/bits"

// PairSet is a set of ordered pairs of different servers.
type PairSet struct {
	servers, words int
	to             []uint64 // [source][word], a bit for each destination
	size           int
}

// NewPairSet returns an empty set of pairs of so many servers.
func NewPairSet(servers int) *PairSet {
	words := (servers + 63) / 64
	return &PairSet{servers: servers, words: words, to: make([]uint64, servers*words)}
}

// Servers returns the number of servers that the pairs are of.
func (x *PairSet) Servers() int { return x.servers }

// Len returns the number of pairs in the set.
func (x *PairSet) Len() int { return x.size }

// Has reports whether a pair is in the set.
func (x *PairSet) Has(s, d Server) bool {
	return x.to[int(s)*x.words+int(d)>>6]>>(d&63)&1 != 0
}

// Add adds a pair to the set and reports whether it is new. A pair of a server with itself
// is not added.
func (x *PairSet) Add(s, d Server) bool {
	word, bit := &x.to[int(s)*x.words+int(d)>>6], uint64(1)<<(d&63)
	if s == d || *word&bit != 0 {
		return false
	}
	*word |= bit
	x.size++
	return true
}

// Remove removes a pair from the set and reports whether it was in.
func (x *PairSet) Remove(s, d Server) bool {
	word, bit := &x.to[int(s)*x.words+int(d)>>6], uint64(1)<<(d&63)
	if *word&bit == 0 {
		return false
	}
	*word &^= bit
	x.size--
	return true
}

// Clone returns a copy of the set.
func (x *PairSet) Clone() *PairSet {
	y := *x
	y.to = append([]uint64(nil), x.to...)
	return &y
}

// List returns the pairs of the set, in order.
func (x *PairSet) List() []Pair {
	pairs := make([]Pair, 0, x.size)
	for s := range x.servers {
		for i, word := range x.to[s*x.words:][:x.words] {
			for ; word != 0; word &= word - 1 {
				pairs = append(pairs, Pair{Server(s), Server(i<<6 + bits.TrailingZeros64(word))})
			}
		}
	}
	return pairs
}
