package gpu

import (
	"context"
	"fmt"
)

// Own is one rank's part of an exchange: its program and the lengths of the stages.
type Own struct {
	Program
	Lengths []int64 // [stage]
}

// Own makes the program of one rank, as Plan does with the same options in mode Bytes. It
// plans the stages of all servers, but only the bytes that the rank's own server sends and
// receives. Choose finds suitable options for a traffic.
func (p *Planner) Own(ctx context.Context, t *Traffic, rank Rank, o Options) (*Own, error) {
	if err := o.checkOwn(t, rank); err != nil {
		return nil, err
	}
	plan, err := p.bytes(ctx, t, o, t.server(rank))
	if err != nil {
		return nil, err
	}
	return plan.own(ctx, rank)
}

// checkOwn checks the arguments of Own.
func (o *Options) checkOwn(t *Traffic, rank Rank) error {
	if err := t.check(); err != nil {
		return err
	}
	switch {
	case rank < 0 || int(rank) >= t.Ranks():
		return fmt.Errorf("rank %d: want 0 to %d", rank, t.Ranks()-1)
	case o.Mode != Bytes:
		return fmt.Errorf("a rank plans for itself only in mode %s, and the mode is %q: choose the options first", Bytes, o.Mode)
	}
	return o.check()
}

// own writes the program of a rank.
func (p *Plan) own(ctx context.Context, rank Rank) (*Own, error) {
	w := newWriter(p, rank, rank+1)
	if err := w.write(ctx); err != nil {
		return nil, err
	}
	own := &Own{Program: w.programs[0], Lengths: make([]int64, len(p.Stages))}
	for i := range own.Lengths {
		own.Lengths[i] = p.Stages[i].Length
	}
	return own, nil
}
