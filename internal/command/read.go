package command

import (
	"context"
	"fmt"
	"io"
	"os"
)

// The maximum sizes in bytes of files that are read as a whole.
const (
	MaxFile = 1 << 30  // fabrics, tables and plans
	MaxText = 64 << 20 // files written by people, and lists of hosts
)

// ReadPath reads a file, and fails if it has more than most bytes. A regular file that is too
// long is not read at all.
func ReadPath(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if at, err := f.Stat(); err == nil && at.Mode().IsRegular() && at.Size() > most {
		return nil, tooLong(path, most)
	}
	return ReadAtMost(f, most, path)
}

// ReadAtMost reads a file, and fails if it has more than most bytes.
func ReadAtMost(r io.Reader, most int64, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, tooLong(name, most)
	}
	return data, err
}

// Parse parses what was read from a path. Errors contain the path.
func Parse[T any](path string, parse func([]byte) (T, error)) func(data []byte, err error) (T, error) {
	return func(data []byte, err error) (v T, _ error) {
		if err != nil {
			return v, err
		}
		if v, err = parse(data); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return v, err
	}
}

func tooLong(name string, most int64) error {
	return fmt.Errorf("read %s: it has more than %d bytes: is it the right file?", name, most)
}

// UnlessStopped returns the result of work, or an error as soon as the program is interrupted.
// The end of the process then ends the work.
func UnlessStopped[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := work()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
