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

// AllPairs returns the complete exchange.
func AllPairs(servers int) *PairSet {
	x := NewPairSet(servers)
	for s := range servers {
		for d := range servers {
			x.Add(Server(s), Server(d))
		}
	}
	return x
}

// Servers is the number of servers that the pairs are of.
func (x *PairSet) Servers() int { return x.servers }

// Len is the number of pairs in the set.
func (x *PairSet) Len() int { return x.size }

// Has tells whether a pair is in the set.
func (x *PairSet) Has(s, d Server) bool {
	return x.to[int(s)*x.words+int(d)>>6]>>(d&63)&1 != 0
}

// Add puts a pair into the set and tells whether it is new there. A pair of a
// server with itself is not put in.
func (x *PairSet) Add(s, d Server) bool {
	word, bit := &x.to[int(s)*x.words+int(d)>>6], uint64(1)<<(d&63)
	if s == d || *word&bit != 0 {
		return false
	}
	*word |= bit
	x.size++
	return true
}

// Remove takes a pair out of the set and tells whether it was in.
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

// list is the pairs of the set, in order.
func (x *PairSet) list() []Pair {
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
