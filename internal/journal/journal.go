// Package journal writes the log to systemd's journal in its native protocol: with priorities,
// and with searchable field names.
package journal

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"go.uber.org/zap/zapcore"
)

// Connected reports whether standard error leads to the journal, so that the native protocol
// can be used.
func Connected() bool {
	stream, err := journal.StderrIsJournalStream()
	return err == nil && stream && journal.Enabled()
}

// New returns a core that writes to the journal through a queue. It writes entries that the
// journal rejects to instead.
func New(level zapcore.LevelEnabler, q *Queue, instead zapcore.Core) zapcore.Core {
	return &core{LevelEnabler: level, queue: q, instead: instead, send: journal.Send}
}

// core writes entries to the journal.
type core struct {
	zapcore.LevelEnabler
	queue   *Queue
	fields  []zapcore.Field
	instead zapcore.Core
	send    func(message string, priority journal.Priority, vars map[string]string) error
}

// With returns a core that adds fields to each entry.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	next := *c
	next.fields = append(next.fields[:len(next.fields):len(next.fields)], fields...)
	next.instead = c.instead.With(fields)
	return &next
}

// Check adds the core for entries with a level that is logged.
func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write sends an entry.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	all := slices.Concat(c.fields, fields)
	vars := map[string]string{"SYSLOG_IDENTIFIER": "forsd"}
	var words []string
	text := ""
	for _, f := range all {
		f.AddTo(enc)
		value := show(enc.Fields[f.Key])
		vars[name(f.Key)] = value
		if f.Key == "text" {
			text = ": " + value
			continue
		}
		words = append(words, f.Key+"="+value)
	}
	message := e.Message + text
	if len(words) > 0 {
		message += " (" + strings.Join(words, ", ") + ")"
	}
	c.queue.Do(func() {
		if err := c.send(message, priority(e.Level, vars["FORSD_SEVERITY"]), vars); err != nil {
			_ = c.instead.Write(e, fields)
		}
	})
	return nil
}

// Sync waits until every entry is sent.
func (c *core) Sync() error { return c.queue.Sync() }

// show returns a value as text. The elements of a list are separated by commas.
func show(v any) string {
	if list, is := v.([]any); is {
		words := make([]string, len(list))
		for i, x := range list {
			words[i] = fmt.Sprint(x)
		}
		return strings.Join(words, ", ")
	}
	return fmt.Sprint(v)
}

// name returns a field's name in the journal: FORSD_ and upper-case letters, digits and
// underscores.
func name(key string) string {
	return "FORSD_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key)
}

// priority returns the journal's priority of an entry. The severity of a warning takes
// precedence over its level.
func priority(level zapcore.Level, severity string) journal.Priority {
	switch severity {
	case "critical":
		return journal.PriCrit
	case "degraded":
		return journal.PriWarning
	case "info":
		return journal.PriNotice
	}
	switch {
	case level >= zapcore.ErrorLevel:
		return journal.PriErr
	case level >= zapcore.WarnLevel:
		return journal.PriWarning
	case level >= zapcore.InfoLevel:
		return journal.PriInfo
	}
	return journal.PriDebug
}

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
