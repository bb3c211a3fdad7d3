package liquid

import (
	"context"
	"math/bits"
)

// maxProved bounds the transfers for which all schedules are tried.
const maxProved = 512

// prove tries all schedules with fewer steps than the best so far, by number of steps, and so
// proves it to be the shortest, or finds the shortest.
func (m *maker) prove(ctx context.Context) {
	if !m.t.Uniform() || m.t.Len() > maxProved {
		return
	}
	for nodes := m.o.Nodes / 16; len(m.r.Schedule) > m.r.Bound; {
		p := &prover{board: newBoard(m.t, m.r.Bound), most: m.r.Bound, nodes: nodes}
		found := p.place(ctx)
		if nodes = p.nodes; nodes <= 0 {
			return
		}
		if found {
			m.offer(MethodSearch, p.schedule())
			return
		}
		m.r.NoLiquid = true
		m.r.Bound++
	}
}

// prover tries all ways to place transfers, regardless of the order of steps.
type prover struct {
	*board
	most  int   // steps
	nodes int64 // left; 0 means that it gave up
}

// place finds steps for all transfers without one, and reports whether it succeeded. It
// begins with the transfer with the fewest possible steps, then with the most loaded links.
func (p *prover) place(ctx context.Context) bool {
	if p.left == 0 {
		return true
	}
	if p.nodes--; p.nodes&255 == 0 && ctx.Err() != nil {
		p.nodes = 0
	}
	if p.nodes <= 0 {
		p.nodes = 0
		return false
	}
	best, fewest, crowd := Transfer(-1), p.most+1, 0
	for x, step := range p.step {
		if step >= 0 {
			continue
		}
		n, load := 0, 0
		for _, v := range p.roomFor(Transfer(x)) {
			n += bits.OnesCount64(v)
		}
		for _, l := range p.t.Path(Transfer(x)) {
			load += p.t.Load(l)
		}
		if n < fewest || n == fewest && load > crowd {
			best, fewest, crowd = Transfer(x), n, load
		}
	}
	if fewest == 0 && p.k == p.most {
		return false
	}
	for step := int32(0); int(step) < p.k; step++ {
		if !p.fits(best, step) {
			continue
		}
		p.board.place(best, step)
		if p.place(ctx) {
			return true
		}
		if p.remove(best); p.nodes == 0 {
			return false
		}
	}
	if p.k == p.most {
		return false
	}
	p.addStep(0)
	p.board.place(best, int32(p.k-1))
	if p.place(ctx) {
		return true
	}
	p.remove(best)
	p.dropStep()
	return false
}
