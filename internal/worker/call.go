package worker

import (
	"context"
	"encoding/gob"
)

// taskOf converts a function to a task for call.
func taskOf[Q, A any](f func(context.Context, *Q) (*A, error)) Task {
	return func(ctx context.Context, in *gob.Decoder) (any, error) {
		var q Q
		if err := in.Decode(&q); err != nil {
			return nil, err
		}
		return f(ctx, &q)
	}
}

// call runs the task's function in a process. Its errors are those of Run, converted to the
// API's errors.
func call[Q, A any](ctx context.Context, p *Pool, task string, q *Q) (*A, error) {
	var a A
	if err := p.Run(ctx, task, q, &a); err != nil {
		return nil, refusal(err)
	}
	return &a, nil
}
