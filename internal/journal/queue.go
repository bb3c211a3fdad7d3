package journal

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// Queue writes a log in its own goroutine, so that logging does not wait until the log is
// read. Entries that do not fit into it are left out and counted. It implements
// zapcore.WriteSyncer.
type Queue struct {
	w       io.Writer
	waiting chan func()
	left    atomic.Int64 // entries left out since the last report
}

const (
	mostWaiting = 4096        // entries
	syncWithin  = time.Second // how long Sync waits
)

// NewQueue returns a queue for lines to w and for other entries. It ends with the program.
func NewQueue(w io.Writer) *Queue {
	q := &Queue{w: w, waiting: make(chan func(), mostWaiting)}
	go func() {
		for write := range q.waiting {
			write()
			if left := q.left.Swap(0); left > 0 {
				_, _ = fmt.Fprintf(w, "%d entries of the log are left out: it was not read in time\n", left)
			}
		}
	}()
	return q
}

// Do has write called after the calls before it.
func (q *Queue) Do(write func()) {
	select {
	case q.waiting <- write:
	default:
		q.left.Add(1)
	}
}

// Write has a line written.
func (q *Queue) Write(line []byte) (int, error) {
	kept := bytes.Clone(line)
	q.Do(func() { _, _ = q.w.Write(kept) })
	return len(line), nil
}

// Sync waits until everything is written, at most for syncWithin.
func (q *Queue) Sync() error {
	ctx, cancel := context.WithTimeout(context.Background(), syncWithin)
	defer cancel()
	done := make(chan struct{})
	select {
	case q.waiting <- func() { close(done) }:
	case <-ctx.Done():
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the log was not read for %v", syncWithin)
	}
}
