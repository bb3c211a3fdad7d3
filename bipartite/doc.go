// Package bipartite is a kernel of algorithms on bipartite multigraphs: edge
// colouring of regular ones, maximum matching, linear assignment. Graphs are
// flat slices of int32, scratch memory is reused from call to call, and equal
// input gives equal output whatever the number of workers.
//
// A D-regular bipartite multigraph splits into D perfect matchings (König 1916).
// Colourer finds them by halving: while D is even, the edges are paired at each
// vertex and the alternating cycles of pairs coloured with two colours, which
// leaves two D/2-regular graphs; when D is odd, a perfect matching found by
// random walks comes out first (Goel, Kapralov and Khanna, STOC 2010). One half is
// coloured before the other, which borrows some of its matchings, so that it has
// a degree with more factors of two and needs fewer searches (after Gabow and
// Kariv, SIAM J. Comput. 11, 1982). The cost is O(E log D).
package bipartite
