// Package ocs schedules a traffic matrix on parallel optical circuit switches
// with a reconfiguration delay, so that the last of them is done as early as
// possible: Spectra (Liang, Qiao, Keslassy and Lin, Scheduling Parallel Optical
// Circuit Switches for AI Training, 2026) as published, and a search that goes
// beyond it.
//
// Each of s switches joins n racks by one permutation at a time and takes δ to
// change it. A schedule gives each switch permutations with weights α, so that
// the weights of the permutations that join i to j sum to at least the demand D_ij;
// its makespan is the largest load Σ(δ + α) of a switch. Times and demands are in
// the same unit, which the caller chooses.
//
//	d, err := ocs.NewDemand(n, entries)
//	s, err := ocs.Make(ctx, d, ocs.Options{Switches: 4, Delta: 0.01, Method: ocs.Best})
//	err = ocs.Replay(d, s)
//
// The method Fast is the paper's: Decompose D into as many permutations as it has
// entries in its fullest row or column, Schedule them by longest processing time
// first, Equalize the loads. Best colours D by permutations that are nearly as light as
// possible, exchanges entries between two at a time along alternating chains, adds
// permutations for the peaks of others if δ is small, and packs with splitting. Eclipse is
// the published variant by another decomposition.
package ocs
