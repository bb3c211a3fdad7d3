// Package ilp routes the phases of a fors schedule by the integer programme of
// the FORS paper's section 5.2, one model per phase, with lp_solve.
//
// The paper's model has a binary variable for every transfer and every lane, and
// lp_solve does not finish on it (306 transfers × 20 lanes for one phase of
// FT(2;20,18)). This package solves the same model in counts: transfers of one pair
// of leaves are interchangeable, so are lanes with the same dead leaves, and phases
// in which every leaf sends as many transfers to every other are one problem. Phases
// that a sequence of matchings routes never reach lp_solve, and a leaf whose transfers
// have no system of distinct live lanes is found before it is called.
//
// According to the paper, a path between every two leaves suffices for a routing. It
// does not: see the test of damaged fabrics. The phases are fixed before the lanes
// here, so a phase may have no routing at all; Route names it.
//
// Programs with the build tag lpsolve call lp_solve through cgo. Others run such a
// program, forsd-lpsolve, in a separate process, so that they start without
// lp_solve's library. Without the program Available is false, and every call returns
// ErrNotBuiltIn.
package ilp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/fors"
)

// PhaseLimit is the time that lp_solve may take for one phase.
const PhaseLimit = 30 * time.Second

// coreLimit is the time that lp_solve may take for a part of a phase.
const coreLimit = 2 * time.Second

// tries is the number of sequences of matchings with random weights, of a fixed seed,
// that are tried before lp_solve: some 0.1 s without success for a phase of
// FT(2;20,18). Of 300 such fabrics with 100 to 180 dead links, one has a phase that
// they route and for which lp_solve needs longer than PhaseLimit.
const tries = 128

// ErrNotBuiltIn is returned by every call if lp_solve is not available.
var ErrNotBuiltIn = errors.New("the engine ilp is not there: install the package forsd-lpsolve with Debian's lp-solve, or build with liblpsolve55-dev")

// ErrTimeLimit is returned if lp_solve does not finish within PhaseLimit.
var ErrTimeLimit = errors.New("time limit")

// Blocked explains why a phase has no routing: Transfers of the transfers that a leaf
// sends, or receives, in the phase can use only Lanes lanes, which are fewer. Leaf is
// −1, and the counts are 0, if each leaf separately has enough lanes but all leaves
// together do not.
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
	return fmt.Sprintf("phase %d has no routing: leaf %d %s %d transfers and has lanes for %d of them", b.Phase, b.Leaf, verb, b.Transfers, b.Lanes)
}

// InfeasibleError names phases that have no routing, ascending: all phases that a
// single leaf blocks or, if there are none, the first that lp_solve proves to have no
// routing and those with the same demand.
type InfeasibleError struct{ Phases []Blocked }

// named is the number of phases beyond the first that an InfeasibleError names.
const named = 8

func (e *InfeasibleError) Error() string {
	var s strings.Builder
	s.WriteString(e.Phases[0].String())
	for i, b := range e.Phases[1:] {
		if i == named {
			fmt.Fprintf(&s, " and %d more", len(e.Phases)-1-named)
			break
		}
		switch {
		case i > 0:
			s.WriteString(", ")
		case len(e.Phases) == 2:
			s.WriteString("; nor has phase ")
		default:
			s.WriteString("; nor have phases ")
		}
		fmt.Fprint(&s, b.Phase)
	}
	s.WriteString("; plan the fabric with the exact engine")
	return s.String()
}

// Route returns the lane of every transfer, [phase][transfer], for phases of
// inter-leaf transfers: a lane that is up at both leaves and open to the
// destination, and that no other transfer of the phase takes out of the same
// leaf or into the same leaf. It fails with an *InfeasibleError if a phase has no
// routing, with ErrTimeLimit, with the context's error, or with ErrNotBuiltIn.
func Route(ctx context.Context, t *fors.Tree, phases [][]fors.Pair) ([][]fors.Lane, error) {
	r := router{limit: PhaseLimit, tries: tries}
	return r.route(ctx, t, phases)
}

// router holds parameters that tests vary, and a counter.
type router struct {
	limit  time.Duration
	tries  int
	direct bool // skip the matchings
	solved int  // demands passed to lp_solve
}

func (r *router) route(ctx context.Context, t *fors.Tree, phases [][]fors.Pair) ([][]fors.Lane, error) {
	if !Available() {
		return nil, ErrNotBuiltIn
	}
	if err := check(t); err != nil {
		return nil, err
	}
	problems, err := newNetwork(t).problems(ctx, phases)
	if err != nil {
		return nil, err
	}
	lanes := make([][]fors.Lane, len(phases))
	for _, same := range problems {
		p := same[0].number
		byGroup, err := r.phase(ctx, same[0].phase)
		if err != nil {
			return nil, fmt.Errorf("route phase %d: %w", p, err)
		}
		if byGroup == nil {
			return nil, &InfeasibleError{Phases: without(same)}
		}
		for _, q := range same {
			lanes[q.number] = q.name(byGroup)
		}
	}
	return lanes, nil
}

// numbered is a phase and its index in the schedule.
type numbered struct {
	*phase
	number int
}

// problems prepares the phases and puts those with the same demand together, in
// the order of the first of each: section 4's 361 phases of FT(2;20,18) for f = 1
// are 19 problems. It fails if a leaf blocks a phase.
func (w *network) problems(ctx context.Context, phases [][]fors.Pair) ([][]numbered, error) {
	var problems [][]numbered
	var blocked []Blocked
	known := map[string]int{}
	for p, pairs := range phases {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("route phase %d: %w", p, err)
		}
		ph, err := w.newPhase(pairs)
		if err != nil {
			return nil, fmt.Errorf("route phase %d: %w", p, err)
		}
		demand := ph.demand()
		i, ok := known[demand]
		if !ok {
			i = len(problems)
			known[demand] = i
			problems = append(problems, nil)
		}
		problems[i] = append(problems[i], numbered{ph, p})
	}
	for _, same := range problems {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("route phase %d: %w", same[0].number, err)
		}
		if b, found := same[0].hall(); found {
			for _, q := range same {
				b.Phase = fors.Phase(q.number)
				blocked = append(blocked, b)
			}
		}
	}
	if blocked != nil {
		slices.SortFunc(blocked, func(a, b Blocked) int { return cmp.Compare(a.Phase, b.Phase) })
		return nil, &InfeasibleError{Phases: blocked}
	}
	return problems, nil
}

// without names phases that have no routing, although no leaf blocks them.
func without(same []numbered) []Blocked {
	var blocked []Blocked
	for _, q := range same {
		blocked = append(blocked, Blocked{Phase: fors.Phase(q.number), Leaf: -1})
	}
	return blocked
}

// phase returns the lanes of each group, or nil if no routing exists. If sequences of
// matchings fail, it passes growing cores to lp_solve: the remaining lanes and the last
// ones before the failed matching, each time twice as many of these, and at the end
// the whole phase, which alone can prove that no routing exists.
func (r *router) phase(ctx context.Context, ph *phase) ([][]fors.Lane, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ph.classify()
	if r.direct {
		r.solved++
		return ph.solve(ctx, r.limit)
	}
	s, done, ok := ph.matchLanes(ctx, ph.lanes, nil)
	rng := rand.New(rand.NewPCG(1, 1))
	for try := 0; !ok && try < r.tries; try++ {
		s, _, ok = ph.matchLanes(ctx, ph.lanes, rng)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if ok {
		return s.byGroup, nil
	}
	r.solved++
	for back := 2; done > back; back *= 2 {
		s, _, _ := ph.matchLanes(ctx, done-back, nil)
		byGroup, err := s.core().solve(ctx, coreLimit)
		if err != nil && !errors.Is(err, ErrTimeLimit) {
			return nil, err
		}
		if byGroup != nil {
			for g, lanes := range byGroup {
				byGroup[g] = slices.Concat(s.byGroup[g], lanes)
			}
			return byGroup, nil
		}
	}
	return ph.solve(ctx, r.limit)
}

// check returns an error if the dimensions of a tree are inconsistent.
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
