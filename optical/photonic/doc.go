// Package photonic plans all-to-all exchanges of GPUs that are joined by optical
// circuit switches alone, and decides how often to reconfigure them (Zhou,
// Addanki, Apostolaki: To Reconfigure or Not to Reconfigure).
//
// n GPUs have a link into and out of each of k switches, so at any time they form
// a digraph of degree k, a topology. A reconfiguration takes R, to send a message
// over one hop takes T. A plan is a sequence of d topologies, the first of which
// has to be configured too, with paths for the messages of all n(n−1) pairs. It
// costs d·R + S·T, where S, its hop sum, is the time of all topologies in units
// of T. The more topologies, the shorter the paths: Make weighs one against the
// other.
//
// Three methods make sequences. Paper is the published one. Greedy chooses the
// shifts of degree 1, and the offsets of higher degrees, by what they save. Carry
// also lets chunks wait at a relay for the next topology, which the paper's bound
// leaves out, and wins by far; see bound.go. Replay checks any plan, hop by hop,
// and shares nothing with what made it.
package photonic
