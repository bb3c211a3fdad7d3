package fors

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// Remainder is a plan of the pairs that remain of an exchange, compared with the old plan.
type Remainder struct {
	*Plan
	Kept  int // transfers in the same phase and on the same lane
	Moved int // in the same phase, on another lane
	Shed  int // in another phase
	// Anew means that planning from scratch took fewer phases than repair: then Kept and
	// Moved are 0.
	Anew bool
}

// Remaining plans the pairs that an exchange still lacks when the fabric changes. old is
// the rest of the old plan: its rows are in the tree's servers, and transfers of other
// pairs are ignored, so servers that vanished have rows without transfers. The new plan
// keeps the old phases. Transfers on dead lanes return to their own phase, on lanes that
// chains of swaps free; those that find none are shed into phases in which both their ends
// idle, or take the place of others (Pack). If that takes more phases than the bound, the
// pairs are planned from scratch, and transfers are moved between the old phases first;
// the shortest plan is returned, the closest to the old one among equals. Pairs without a
// usable common lane are left out and listed. It fails if the tree is inconsistent, if
// pairs or old rows are not of the tree's servers, and with ctx.Err() soon after ctx
// ends. A nil old is a plan without phases: the pairs, of any number, are then planned from
// scratch.
func Remaining(ctx context.Context, t *Tree, pairs *PairSet, old *Plan) (*Remainder, error) {
	if err := t.validate(); err != nil {
		return nil, err
	}
	servers := t.Servers()
	if old == nil {
		old = NewPlan(Exact, servers, 0)
	}
	if pairs.Servers() != servers || old.Servers != servers {
		return nil, fmt.Errorf("plan what remains on a tree of %d servers: the pairs are of %d, the old plan of %d", servers, pairs.Servers(), old.Servers)
	}
	if want := old.Phases * servers; len(old.To) != want || len(old.Lane) != want {
		return nil, fmt.Errorf("plan what remains: the old plan has %d destinations and %d lanes, want %d of each for %d phases", len(old.To), len(old.Lane), want, old.Phases)
	}
	m, err := newMender(ctx, t, pairs, old, runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, err
	}
	return m.remainder(ctx, m.attempts())
}

// remainder returns the shortest plan of the attempts, or the first at the bound.
func (m *mender) remainder(ctx context.Context, attempts []attempt) (*Remainder, error) {
	r := &Remainder{}
	for _, attempt := range attempts {
		p, err := attempt.plan(ctx)
		if err != nil {
			return nil, err
		}
		if r.Plan == nil || busyPhases(p) < busyPhases(r.Plan) {
			r.Plan, r.Anew = p, attempt.anew && m.old.Phases > 0
		}
		if busyPhases(r.Plan) <= m.bounds.LowerBound {
			break
		}
	}
	r.compare(m.old, m.pairs)
	r.dropEmpty()
	r.Bounds, r.Unreachable = m.bounds, m.unreachable
	return r, nil
}

// compare counts the old plan's transfers that stayed, moved or were shed.
func (r *Remainder) compare(old *Plan, pairs *PairSet) {
	for i, d := range old.To {
		switch s := Server(i % max(1, old.Servers)); {
		case d == Idle || !pairs.Has(s, d):
		case r.Anew || i >= len(r.To) || r.To[i] != d:
			r.Shed++
		case r.Lane[i] == old.Lane[i]:
			r.Kept++
		default:
			r.Moved++
		}
	}
}

// busyPhases returns the number of phases with transfers.
func busyPhases(p *Plan) int {
	n := 0
	for ph := range p.Phases {
		if to, _ := p.Row(Phase(ph)); !allIdle(to) {
			n++
		}
	}
	return n
}

// mender makes plans of pairs.
type mender struct {
	tree        *Tree
	pairs       *PairSet // joined by some lane
	unreachable []Pair   // the others
	bounds      Bounds
	old         *Plan
	demand      *pairDemands
	board       *board
	colourer    bipartite.Colourer

	plan     *Plan
	left     *PairSet // pairs not in a phase yet
	failures int      // of finding a lane by force
}

func newMender(ctx context.Context, t *Tree, pairs *PairSet, old *Plan, workers int) (*mender, error) {
	demand, bounds, err := pairBounds(ctx, t, pairs.List())
	if err != nil {
		return nil, err
	}
	m := &mender{tree: t, pairs: pairs.Clone(), unreachable: demand.apart, bounds: bounds, old: old, demand: demand, board: newBoard(t)}
	m.colourer.Workers = workers
	for _, x := range m.unreachable {
		m.pairs.Remove(x.Src, x.Dst)
	}
	return m, nil
}

// attempt is a way to make a plan.
type attempt struct {
	plan func(context.Context) (*Plan, error)
	anew bool // from scratch
}

// attempts returns the ways to make a plan; the first keeps most of the old one.
func (m *mender) attempts() []attempt {
	var out []attempt
	repaired := m.old.Phases > 0
	if repaired {
		out = append(out, attempt{m.repair, false})
	}
	if repaired && m.bounds.LowerBound > m.old.Phases {
		out = append(out, attempt{m.relieve, false})
	}
	if servers := m.pairs.Servers(); m.pairs.Len()+len(m.unreachable) == servers*(servers-1) {
		out = append(out, attempt{m.complete, true})
	}
	if repaired {
		out = append(out, attempt{m.rearrange, false})
	}
	return append(out, attempt{m.packAll, true})
}

// repair keeps the phases of the old plan and all of their transfers that have room in
// them.
func (m *mender) repair(ctx context.Context) (*Plan, error) {
	m.keep()
	return m.finish(ctx)
}

// relieve is repair, but where phases are to be added, the old ones first lose the transfers
// that their leaves have no lanes for.
func (m *mender) relieve(ctx context.Context) (*Plan, error) {
	m.keep()
	m.shed(ctx)
	return m.finish(ctx)
}

// rearrange keeps the phases of the old plan, adds new ones up to the bound, and
// moves transfers between them before they get their lanes.
func (m *mender) rearrange(ctx context.Context) (*Plan, error) {
	m.keep()
	for m.plan.Phases < m.bounds.LowerBound {
		m.plan.addPhase()
	}
	newBalancer(m.tree, m.plan).balance(ctx)
	return m.finish(ctx)
}

// packAll packs all pairs into new phases as if same-leaf transfers did not occupy servers,
// and moves transfers between the phases until lanes suffice.
func (m *mender) packAll(ctx context.Context) (*Plan, error) {
	m.begin()
	if err := m.pack(ctx, m.demand, m.bounds.LowerBound); err != nil {
		return nil, err
	}
	newBalancer(m.tree, m.plan).balance(ctx)
	return m.finish(ctx)
}

// complete plans the complete exchange, whose bound may be better.
func (m *mender) complete(ctx context.Context) (*Plan, error) {
	p, err := Make(ctx, m.tree)
	if err == nil && p.LowerBound > m.bounds.LowerBound {
		m.bounds = p.Bounds
	}
	return p, err
}

// begin discards the current plan.
func (m *mender) begin() {
	m.plan, m.left, m.failures = NewPlan(Exact, m.pairs.Servers(), 0), m.pairs.Clone(), 0
}

// keep starts from the phases of the old plan with those of their transfers that are still
// wanted.
func (m *mender) keep() {
	m.begin()
	p, old := m.plan, m.old
	p.To, p.Lane, p.Phases = append(p.To, old.To...), append(p.Lane, old.Lane...), old.Phases
	heard := make([]int, p.Servers) // the last phase, plus one
	for ph := range p.Phases {
		to, lane := p.Row(Phase(ph))
		for s, d := range to {
			if d >= 0 && int(d) < len(to) && heard[d] != ph+1 && m.left.Remove(Server(s), d) {
				heard[d] = ph + 1
			} else {
				to[s], lane[s] = Idle, Local
			}
		}
	}
}

// finish gives the transfers their lanes and places the rest: in phases in which both their
// ends idle, in new phases if these suffice, and in place of others.
func (m *mender) finish(ctx context.Context) (*Plan, error) {
	if err := m.mend(ctx, 0); err != nil {
		return nil, err
	}
	m.fillIn(ctx)
	if extra := m.bounds.LowerBound - m.plan.Phases; extra > 0 && m.left.Len() > 0 {
		demand, b, err := pairBounds(ctx, m.tree, m.left.List())
		if err != nil {
			return nil, err
		}
		if old := m.plan.Phases; b.LowerBound <= extra {
			if err := m.pack(ctx, demand, extra); err != nil {
				return nil, err
			}
			if err := m.mend(ctx, old); err != nil {
				return nil, err
			}
			m.fillIn(ctx)
		}
	}
	if rest := m.left.List(); len(rest) > 0 {
		m.placeLate(rest)
	}
	return m.plan, ctx.Err()
}

// fillIn places what is left in phases in which both ends idle.
func (m *mender) fillIn(ctx context.Context) {
	rest := m.left.List()
	for ph := 0; ph < m.plan.Phases && len(rest) > 0 && ctx.Err() == nil; ph++ {
		m.board.load(m.plan, Phase(ph), nil)
		rest = slices.DeleteFunc(rest, func(x Pair) bool {
			fits := m.board.idle(x.Src, x.Dst) && m.board.fit(x.Src, x.Dst)
			if fits {
				m.left.Remove(x.Src, x.Dst)
			}
			return fits
		})
	}
}

// mend gives the transfers of all phases from one on lanes that are up, and removes those
// that find none.
func (m *mender) mend(ctx context.Context, from int) error {
	var out []Pair
	for ph := from; ph < m.plan.Phases; ph++ {
		out = m.board.load(m.plan, Phase(ph), out[:0])
		for _, x := range out {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !m.place(x) {
				m.left.Add(x.Src, x.Dst)
			}
		}
	}
	return nil
}

// maxFailures, or the number of servers, limits the searches by force without success in a plan:
// if many transfers find no lane, most are shed anyway.
const maxFailures = 200

// place puts a transfer between idle servers into the current phase and reports whether a
// lane was found.
func (m *mender) place(x Pair) bool {
	if m.failures >= min(maxFailures, m.pairs.Servers()) {
		return m.board.fit(x.Src, x.Dst)
	}
	placed := m.board.force(x.Src, x.Dst)
	if !placed {
		m.failures++
	}
	return placed
}
