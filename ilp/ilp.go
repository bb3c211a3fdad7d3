// Package ilp routes the phases of a fors schedule by the integer programme of
// the FORS paper's section 5.2, one model a phase, on lp_solve.
//
// The paper's model has a binary variable for every transfer and every lane, and
// lp_solve does not finish on it (306 transfers × 20 lanes for one phase of
// FT(2;20,18)). The same model is solved here in counts: transfers of one pair
// of leaves are interchangeable and so are lanes with the same dead leaves.
// What a sequence of matchings settles never reaches lp_solve, and a leaf whose
// transfers have no system of distinct living lanes is found before it is asked.
//
// The paper says that a path between every two leaves suffices for a routing. It
// does not: see the test of damaged fabrics. The phases are fixed before the
// lanes here, so a phase may admit no routing at all; Route names it.
//
// The engine needs cgo and the build tag lpsolve. Without them the package
// builds, Available is false, and every call returns ErrNotBuiltIn.
package ilp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"forsd/fors"
)

// PhaseLimit is the time that lp_solve may take for one phase, and for the
// programme of Bound.
const PhaseLimit = 30 * time.Second

// coreLimit is the time that lp_solve may take for a part of a phase.
const coreLimit = 2 * time.Second

// ErrNotBuiltIn is returned by every call in a program built without lp_solve.
var ErrNotBuiltIn = errors.New("the ilp engine is not built in: install lp-solve and liblpsolve55-dev, and build with cgo and -tags lpsolve")

// ErrTimeLimit says that lp_solve did not finish within PhaseLimit or, to the
// next whole second, the context's deadline.
var ErrTimeLimit = errors.New("time limit")

// Blocked says why a phase has no routing: among the transfers that a leaf sends,
// or receives, in the phase, there are Transfers that may use none but Lanes
// lanes, and these are fewer. Leaf is −1, and the counts are 0, where every leaf
// for itself has lanes enough and the leaves together have not.
type Blocked struct {
	Phase            fors.Phase
	Leaf             int
	Receives         bool
	Transfers, Lanes int
}

func (b Blocked) String() string {
	verb := "sends"
	if b.Receives {
		verb = "receives"
	}
	if b.Leaf < 0 {
		return fmt.Sprintf("phase %d has no routing", b.Phase)
	}
	return fmt.Sprintf("phase %d has no routing: leaf %d %s %d transfers for which there are %d lanes", b.Phase, b.Leaf, verb, b.Transfers, b.Lanes)
}

// InfeasibleError names phases that have no routing, ascending: all those that a
// single leaf blocks or, where no leaf does, the first that lp_solve proves to
// be without one.
type InfeasibleError struct{ Phases []Blocked }

func (e *InfeasibleError) Error() string {
	var s strings.Builder
	s.WriteString(e.Phases[0].String())
	if more := len(e.Phases) - 1; more > 0 {
		fmt.Fprintf(&s, ", and so in %d more phases", more)
	}
	s.WriteString("; plan the fabric with the exact engine")
	return s.String()
}

// Route returns the lane of every transfer, [phase][transfer], for phases of
// inter-leaf transfers: a lane that is up at both leaves and open to the
// destination, and that no other transfer of the phase takes out of the same
// leaf or into the same leaf. It fails with an *InfeasibleError where a phase has
// no routing, with ErrTimeLimit, with the context's error, or with ErrNotBuiltIn.
func Route(ctx context.Context, t *fors.Tree, phases [][]fors.Pair) ([][]fors.Lane, error) {
	r := router{limit: PhaseLimit}
	return r.route(ctx, t, phases)
}

// router holds what tests vary, and counts.
type router struct {
	limit  time.Duration
	direct bool // leave nothing to matchings
	solved int  // phases that lp_solve routed
}

func (r *router) route(ctx context.Context, t *fors.Tree, phases [][]fors.Pair) ([][]fors.Lane, error) {
	if !Available() {
		return nil, ErrNotBuiltIn
	}
	if err := check(t); err != nil {
		return nil, err
	}
	grouped, err := newNetwork(t).group(ctx, phases)
	if err != nil {
		return nil, err
	}
	lanes := make([][]fors.Lane, len(phases))
	for p, ph := range grouped {
		if lanes[p], err = r.phase(ctx, ph); err != nil {
			return nil, fmt.Errorf("route phase %d: %w", p, err)
		}
		if lanes[p] == nil {
			return nil, &InfeasibleError{Phases: []Blocked{{Phase: fors.Phase(p), Leaf: -1}}}
		}
	}
	return lanes, nil
}

// group prepares the phases. It fails where a leaf blocks one.
func (w *network) group(ctx context.Context, phases [][]fors.Pair) ([]*phase, error) {
	grouped := make([]*phase, len(phases))
	var blocked []Blocked
	for p, pairs := range phases {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("route phase %d: %w", p, err)
		}
		ph, err := w.newPhase(pairs)
		if err != nil {
			return nil, fmt.Errorf("route phase %d: %w", p, err)
		}
		if b, found := ph.hall(); found {
			b.Phase = fors.Phase(p)
			blocked = append(blocked, b)
		}
		grouped[p] = ph
	}
	if blocked != nil {
		return nil, &InfeasibleError{Phases: blocked}
	}
	return grouped, nil
}

// phase routes one phase; it returns nil where there is no routing. What a
// sequence of matchings leaves undone, lp_solve is given in growing cores: the
// last lanes before the matching that failed and those to come, twice as many at
// a time, and in the end the whole phase, which alone proves that there is no
// routing.
func (r *router) phase(ctx context.Context, ph *phase) ([]fors.Lane, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ph.classify()
	done := 0
	if !r.direct {
		s, matched, ok := ph.settle(ph.lanes)
		if ok {
			return ph.name(s.byGroup), nil
		}
		done = matched
	}
	r.solved++
	for back := 2; done > back; back *= 2 {
		s, _, _ := ph.settle(done - back)
		byGroup, err := s.core().solve(ctx, coreLimit)
		if err != nil && !errors.Is(err, ErrTimeLimit) {
			return nil, err
		}
		if byGroup != nil {
			for g, lanes := range byGroup {
				byGroup[g] = append(s.byGroup[g], lanes...)
			}
			return ph.name(byGroup), nil
		}
	}
	byGroup, err := ph.solve(ctx, r.limit)
	if byGroup == nil {
		return nil, err
	}
	return ph.name(byGroup), nil
}

// check tells what is wrong with the dimensions of a tree.
func check(t *fors.Tree) error {
	if len(t.Up) != len(t.Slots) {
		return fmt.Errorf("route a tree of %d leaves: lane states are given for %d leaves", len(t.Slots), len(t.Up))
	}
	for leaf, up := range t.Up {
		if len(up) != t.Lanes {
			return fmt.Errorf("route leaf %d: %d lane states are given for %d lanes", leaf, len(up), t.Lanes)
		}
	}
	return nil
}
