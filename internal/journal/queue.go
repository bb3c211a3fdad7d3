package journal

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// Queue writes a log in a goroutine of its own, so that nobody who logs waits for a reader
// of the log. Entries that do not fit into it are left out and counted. It implements
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
				_, _ = fmt.Fprintf(w, "%d entries of the log are left out: nobody read it\n", left)
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

// Sync waits until everything is written, at most for a second.
func (q *Queue) Sync() error {
	done, late := make(chan struct{}), time.After(syncWithin)
	select {
	case q.waiting <- func() { close(done) }:
	case <-late:
		return errUnread
	}
	select {
	case <-done:
		return nil
	case <-late:
		return errUnread
	}
}

var errUnread = fmt.Errorf("nobody has read the log for %v", syncWithin)
