package tiers

import (
	"context"

	"github.com/forsd/forsd/internal/matrix"
	"github.com/forsd/forsd/optical/photonic"
)

// photonicRequest bounds the bytes of a request: a matrix of the most GPUs with
// numbers of 16 digits.
const photonicRequest = 18 * photonic.MaxVaried * photonic.MaxVaried

// planPhotonic answers POST /v1/optical/photonic, as forsplan photonic plan --json
// does.
func (*ground) planPhotonic(ctx context.Context, q *photonic.Request) (any, error) {
	var side int
	var entries []float64
	if q.Matrix != nil {
		m, err := matrix.FromRows(q.Matrix, matrix.Options{Square: true, MaxSide: photonic.MaxVaried})
		if err != nil {
			return nil, err
		}
		side, entries = m.Rows, m.Data
	}
	in, o, err := q.Instance(side, entries)
	if err != nil {
		return nil, err
	}
	plan, err := photonic.Make(ctx, in, o)
	if err != nil {
		return nil, err
	}
	baselines, err := photonic.Baselines(ctx, in)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	return photonic.NewReport(context.WithoutCancel(ctx), in, plan, baselines)
}
