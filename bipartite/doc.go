// Package bipartite is a kernel of algorithms on bipartite multigraphs: edge colouring of
// regular graphs, matchings of maximum size and weight, linear assignment, maximum flows,
// and the decomposition of matrices into weighted matchings. Graphs are flat slices of
// int32, scratch memory is reused from call to call, and equal input gives equal output
// with any number of workers.
//
// A D-regular bipartite multigraph splits into D perfect matchings (König 1916). Colourer
// finds them in two ways.
//
// Up to D = 64 it colours the left vertices one by one, all edges of one at once. The
// colours that are free at a vertex are the bits of a word, and each edge of the row takes
// one that is free at both its ends, if necessary one that another edge of the row can give
// up. Only for an edge that finds none, some three in a hundred, two colours are swapped
// along an alternating chain, as in König's proof (Kempe chains; Gabow and Kariv, SIAM J.
// Comput. 11, 1982): the shortest of up to four.
//
// Otherwise it halves the graph: while D is even, the edges are paired at each vertex and
// the alternating cycles of pairs give two D/2-regular graphs, many parallel edges at a
// time; when D is odd, a perfect matching found by random walks comes out first (Goel,
// Kapralov and Khanna, STOC 2010). It also halves a graph whose chains take too many steps,
// which keeps the cost at O(E log D).
package bipartite
