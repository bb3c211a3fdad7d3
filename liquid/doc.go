// Package liquid schedules any set of transfers over any static routing such that
// no two transfers of a step share a link (Gabrielyan and Hersch, Network Topology
// Aware Scheduling of Collective Data Exchanges).
//
// A transfer is the set of links of its path, a traffic a set of transfers. The
// load of a link is the number of transfers that use it; the links with the
// largest load are the bottlenecks, and that load is the duration Λ: no schedule
// has fewer steps. A schedule of Λ steps is liquid. All its steps are teams: sets
// of transfers that share no link and use every bottleneck.
//
// Make has three ways to find a schedule. The search goes depth first over the full
// teams of the remaining traffic (section 3.2 of the paper), one step after the other;
// if it ends without a liquid schedule, there is none. The colouring moves transfers
// between a fixed number of steps until all have room; it proves nothing, and it needs
// no conflict graph: it only records which transfer has a link in a step. Round-robin
// may happen to be liquid. Dsatur and random serve as comparison, and Dsatur also
// schedules if another method has no result in time.
//
// If transfers take different times, because their slowest links differ, a step
// lasts as long as its longest transfer, and Bounds returns the least number of steps
// of each duration.
package liquid
