// Package liquid schedules any set of transfers over any static routing, so that
// no two transfers of a step share a link (Gabrielyan and Hersch, Network Topology
// Aware Scheduling of Collective Data Exchanges).
//
// A transfer is the set of links of its path, a traffic a set of transfers. The
// load of a link is the number of transfers that use it; the links with the
// largest load are the bottlenecks, and that load is the duration Λ: no schedule
// has fewer steps. A schedule of Λ steps is liquid. All its steps are teams: sets
// of transfers that share no link and use every bottleneck.
//
// Make has three ways to answer. The search goes depth first over the full teams
// of the traffic that remains (section 3.2 of the paper), one step after the other;
// when it comes to an end without a schedule, there is none. The colouring moves
// transfers between a fixed number of steps until all have room; it proves nothing,
// and it needs no conflict graph: which transfer has a link in a step is all that
// it keeps. Round-robin may happen to be liquid. Dsatur and random are there to
// compare with, and Dsatur for what is left when time is up.
//
// Where transfers take different times, because their slowest links differ, a
// step lasts as long as its longest transfer, and Bounds says how many steps there
// must be of each duration.
package liquid
