package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"io"
)

// taskOf converts a function to a task for call.
func taskOf[Q, A any](f func(context.Context, *Q) (*A, error)) Task {
	return func(ctx context.Context, in *bufio.Reader) ([]byte, error) {
		var q Q
		if err := gob.NewDecoder(in).Decode(&q); err != nil {
			return nil, err
		}
		a, err := f(ctx, &q)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		err = gob.NewEncoder(&out).Encode(a)
		return out.Bytes(), err
	}
}

// call runs the task's function in a process. Its errors are those of Run, converted to the
// API's errors.
func call[Q, A any](ctx context.Context, p *Pool, task string, q *Q) (*A, error) {
	var a A
	err := p.Run(ctx, task, func(in io.Writer) error { return gob.NewEncoder(in).Encode(q) },
		func(answer *Answer) error { return gob.NewDecoder(answer).Decode(&a) })
	if err != nil {
		return nil, refusal(err)
	}
	return &a, nil
}
