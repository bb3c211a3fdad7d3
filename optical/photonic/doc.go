// Package photonic plans all-to-all exchanges of GPUs that are joined only by optical
// circuit switches, and decides how often to reconfigure them (Zhou, Addanki,
// Apostolaki: To Reconfigure or Not to Reconfigure).
//
// n GPUs have a link into and out of each of k switches, so at any time they form
// a digraph of degree k, a topology. A reconfiguration takes time R; sending a message
// over one hop takes T. A plan is a sequence of d topologies, each of which needs a
// reconfiguration, with paths for the messages of all n(n−1) pairs. It costs
// d·R + S·T, where S, its hop sum, is the time of all topologies in units of T. More
// topologies make paths shorter: Make finds the best compromise.
//
// Chunks may wait at a relay for the next topology, which the paper's bound excludes; see
// bound.go. Replay checks any plan, hop by hop, and shares no code with the planner.
package photonic
