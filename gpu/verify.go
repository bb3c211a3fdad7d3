package gpu

import (
	"context"
	"fmt"
	"slices"
)

// Verify executes a plan's programs and returns the first error: a byte of the traffic that does
// not arrive, or arrives twice or in the wrong place; a NIC that sends or receives more than one
// transfer in a stage, or more than the stage's length; a byte that is sent before it has
// arrived, or overwritten before it is sent on; a length or an amount of moves that differs from
// the plan's. It does not depend on how plans are made. It also fails soon after ctx ends.
func Verify(ctx context.Context, t *Traffic, p *Plan) error {
	lengths := make([]int64, len(p.Stages))
	for i := range p.Stages {
		lengths[i] = p.Stages[i].Length
	}
	programs, err := p.Programs(ctx)
	if err != nil {
		return err
	}
	busiest, err := verify(ctx, t, lengths, programs, summary{p.Length, p.Bound, p.MovesBefore, p.MovesAfter})
	if err == nil && !slices.Equal(busiest, p.Busiest) {
		return fmt.Errorf("the plan states that the busiest GPUs move %d bytes inside servers, [step], but they move %d", p.Busiest, busiest)
	}
	return err
}

// Verify is the function Verify for an exchange in binary form.
func (v *View) Verify(ctx context.Context, t *Traffic) error {
	programs, err := v.Programs()
	if err != nil {
		return err
	}
	_, err = verify(ctx, t, v.Lengths, programs, summary{v.Length, v.Bound, v.MovesBefore, v.MovesAfter})
	return err
}

// summary holds the statistics that plans and exchanges state.
type summary struct{ length, bound, before, after int64 }

func verify(ctx context.Context, t *Traffic, lengths []int64, programs []Program, says summary) ([]int64, error) {
	busiest, err := carryOut(ctx, t, lengths, programs, itself)
	if err != nil {
		return nil, err
	}
	is := summary{bound: t.Bound()}
	for _, v := range lengths {
		is.length += v
	}
	for r := range programs {
		is.before += moved(Rank(r), programs[r].Before.Send)
		is.after += moved(Rank(r), programs[r].After.Send)
	}
	switch {
	case says.length != is.length:
		return nil, fmt.Errorf("the plan's length is %d, its stages' %d", says.length, is.length)
	case says.before != is.before || says.after != is.after:
		return nil, fmt.Errorf("the plan states moves of %d and %d bytes inside servers, but moves %d and %d", says.before, says.after, is.before, is.after)
	case says.bound != is.bound:
		return nil, fmt.Errorf("the plan's bound is %d, Eq. 26 gives %d", says.bound, is.bound)
	}
	return busiest, nil
}

// moved sums the bytes of moves to other ranks.
func moved(self Rank, list []Move) int64 {
	sum := int64(0)
	for _, x := range list {
		if x.Peer != self {
			sum += x.Bytes
		}
	}
	return sum
}
