package fors

import (
	"context"
	"fmt"
	"slices"
)

// blocks plans in blocks of g phases, where g is the servers of the largest leaf. In a
// block a leaf sends to a server from all of its own servers in turn: a block is to leaves
// what a phase is to servers. It returns nil if that fails.
func (x *oneLID) blocks(ctx context.Context, g, blocks int, budget *int) (*Grouped, error) {
	once := make([]int, x.leaves)
	for A := range once {
		once[A] = 1
	}
	l, ok := x.choose(blocks, once, budget)
	if !ok {
		return nil, nil
	}
	// Without a spare block, a leaf has as many destinations in each block as servers: it
	// sends and receives evenly. With a spare one it does not have to: idle edges are then
	// useless, and paths are shorter without them.
	loose := g*blocks-x.tree.Peers() > g
	f := newDestFrame(l)
	if err := f.colour(ctx); err != nil {
		return nil, fmt.Errorf("set the blocks: %w", err)
	}
	if loose {
		f.loosen(slices.Repeat([]int{g}, l.leaves))
	}
	if settled, err := f.removeClashes(ctx, budget, max(blockWork, edgeWork*len(f.unit))); !settled || err != nil {
		return nil, err
	}
	s := &destSeats{laning: l, slots: l.slots, local: make([][]trip, l.leaves)}
	s.trips, _ = f.trips()
	idle := s.idle()
	for A := range l.leaves {
		if s.ride(A, idle, g, 1) != nil {
			return nil, nil
		}
	}
	return s.rotate(g), nil
}

// rotate writes the plan: the servers of a leaf take turns at the destinations that
// it has in a block.
func (s *destSeats) rotate(g int) *Grouped {
	plan := NewPlan(Exact, len(s.leafOf), s.slots*g)
	for A := range s.leaves {
		met := make([]int, s.slots) // destinations of the block so far
		for _, trips := range [][]trip{s.trips[A], s.local[A]} {
			for _, t := range trips {
				lane := s.via[A*plan.Servers+int(t.server)] // Local within the leaf
				for i := range s.size[A] {
					if from := s.base[A] + Server(i); from != Server(t.server) {
						to, lanes := plan.Row(Phase(int(t.slot)*g + (met[t.slot]+g-i)%g))
						to[from], lanes[from] = Server(t.server), lane
					}
				}
				met[t.slot]++
			}
		}
	}
	return s.grouped(plan)
}
