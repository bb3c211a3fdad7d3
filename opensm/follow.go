package opensm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

const (
	maxLogLine = 64 << 10 // bytes of a line that are kept
	logChunk   = 256 << 10
)

// LogFollower reads the lines that OpenSM appends to its log, across rotation and
// truncation, for warnings. OpenSM buffers the log unless force_log_flush is set: a line
// may come late, and nothing should wait for one.
type LogFollower struct {
	Path string
	// FromStart reads the existing log first; otherwise only new lines are read.
	FromStart bool
	Poll      time.Duration // between looks at the file
	// Event receives every line that matters.
	Event func(LogEvent)
	// Report receives an error that keeps the log from being read, and nil when
	// that is over. That the file is missing is none.
	Report func(err error)
}

// Run follows the log until ctx ends, whose error it returns.
func (l *LogFollower) Run(ctx context.Context) error {
	t := &tail{path: l.Path, skip: !l.FromStart, line: func(text string) {
		if e, ok := ClassifyLog(text); ok {
			l.Event(e)
		}
	}}
	defer t.close()
	problem := newReporter(func(_ string, err error) { l.Report(err) })
	tick := time.NewTicker(l.Poll)
	defer tick.Stop()
	for {
		problem.report("", t.read())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// tail hands out the lines that are added to a file. A line counts when its end
// is there.
type tail struct {
	path string
	skip bool // pass over what the file holds when it is first opened
	line func(string)

	file   *os.File
	offset int64
	part   []byte // the beginning of a line, up to maxLogLine
	buffer []byte
}

func (t *tail) close() {
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
}

// read hands out what has been added since the last call. A file that was
// rotated away is read to its end before its successor.
func (t *tail) read() error {
	if t.file == nil {
		if err := t.open(); err != nil {
			return missingIsFine(err)
		}
	}
	if err := t.rest(); err != nil {
		return err
	}
	now, err := os.Stat(t.path)
	if err != nil {
		return missingIsFine(err) // rotated, and the new one is not there yet
	}
	mine, err := t.file.Stat()
	if err != nil || os.SameFile(now, mine) {
		return err
	}
	if err := t.rest(); err != nil { // what was added until it was rotated
		return err
	}
	t.close()
	if err := t.open(); err != nil {
		return missingIsFine(err)
	}
	return t.rest()
}

func missingIsFine(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (t *tail) open() error {
	f, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		t.skip = false // all of it will be new when it comes
	}
	if err != nil {
		return err
	}
	t.file, t.offset = f, 0
	t.part = t.part[:0]
	if t.skip {
		t.skip = false
		t.offset, err = f.Seek(0, io.SeekEnd)
	}
	return err
}

// rest reads the open file to its end, from its start where it was truncated.
func (t *tail) rest() error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < t.offset {
		t.offset = 0
		t.part = t.part[:0]
	}
	if t.buffer == nil {
		t.buffer = make([]byte, logChunk)
	}
	for {
		n, err := t.file.ReadAt(t.buffer, t.offset)
		t.offset += int64(n)
		t.feed(t.buffer[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// feed hands out the lines that end in data, and keeps what is left.
func (t *tail) feed(data []byte) {
	for len(data) > 0 {
		text, rest, ended := bytes.Cut(data, []byte{'\n'})
		if room := maxLogLine - len(t.part); len(text) > room {
			text = text[:room]
		}
		t.part = append(t.part, text...)
		if ended {
			t.line(string(t.part))
			t.part = t.part[:0]
		}
		data = rest
	}
}
