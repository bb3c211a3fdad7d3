package opensm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// tableMode lets OpenSM and the tools read the table file, whatever user they run as.
const tableMode = 0o644

// withdrawn is at the end of the name of a table file that WithdrawTables has put aside.
const withdrawn = ".last"

// WithdrawTables moves the table file aside, so that OpenSM uses its next routing engine.
// WriteTables moves it back if it is still right.
func WithdrawTables(path string) error {
	err := os.Rename(path, path+withdrawn)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("withdraw tables: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// ReadTables reads the table file, or what was put aside.
func ReadTables(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return os.ReadFile(path + withdrawn)
	}
	return text, err
}

// WriteTables replaces the table file by the output of write, which must be the same at
// each call, and reports whether the content changed; an equal file is left alone. The text
// is never in memory as a whole. The file is replaced by a rename, so that OpenSM reads the
// old or the new one whole: a file truncated at a line end would be accepted, and empty the
// switches it lacks. It is on disk when WriteTables returns; if only the sync failed, both
// results say so. There must be one writer at a time; the remains of a killed writer are
// reused by the next.
func WriteTables(path string, write func(io.Writer) error) (changed bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, fmt.Errorf("write tables: %w", err)
	}
	now := path
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		now += withdrawn
	}
	same, size, err := holds(now, write)
	switch {
	case err != nil:
	case !same:
		if changed, err = replace(path, size, write); err == nil {
			_ = os.Remove(path + withdrawn)
		}
	case now != path:
		err = os.Rename(now, path)
	}
	if err != nil {
		return changed, fmt.Errorf("write tables: %w", err)
	}
	return changed, nil
}

// comparison compares the data written to it with a file.
type comparison struct {
	file *os.File // nil once they differ
	part []byte
	size int64 // bytes written
}

// Write reads as much of the file as is written.
func (c *comparison) Write(text []byte) (int, error) {
	c.size += int64(len(text))
	for rest := text; c.file != nil && len(rest) > 0; { // most files differ soon
		part := c.part[:min(len(rest), len(c.part))]
		n, err := io.ReadFull(c.file, part)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		if err != nil || !bytes.Equal(part, rest[:n]) {
			err = c.file.Close()
			c.file = nil
			return len(text), err
		}
		rest = rest[n:]
	}
	return len(text), nil
}

// holds reports whether the file at path is a regular one with exactly the output of write,
// and the size of that.
func holds(path string, write func(io.Writer) error) (same bool, size int64, err error) {
	var c comparison
	info, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, 0, err
	}
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm() == tableMode {
		if c.file, err = os.Open(path); err != nil {
			return false, 0, err
		}
		c.part = make([]byte, 1<<16)
	}
	err = write(&c)
	if c.file == nil {
		return false, c.size, err
	}
	return info.Size() == c.size, c.size, errors.Join(err, c.file.Close())
}

// replace puts a file of the given size in the place of path, and reports whether it is
// there. The temporary file has a fixed name, so that a crash leaves at most one. If the
// disk is full, the spare takes its place.
func replace(path string, size int64, write func(io.Writer) error) (done bool, err error) {
	temporary, spare := path+".new", path+".spare"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err = become(path, temporary, os.O_CREATE|os.O_EXCL, size, write); err != nil {
		if left := os.Remove(temporary); !errors.Is(left, fs.ErrNotExist) {
			err = errors.Join(err, left)
		}
	}
	if errors.Is(err, syscall.ENOSPC) {
		if info, missing := os.Stat(spare); missing == nil && info.Size() >= size {
			err = become(path, spare, 0, size, write)
		}
	}
	if err != nil {
		return false, err
	}
	err = syncDir(filepath.Dir(path))
	_ = reserve(spare, size) // best effort: only needed on a full disk
	return true, err
}

// become writes a file of so many bytes and renames it to path.
func become(path, name string, flags int, size int64, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, flags|os.O_WRONLY, tableMode)
	if err != nil {
		return err
	}
	err = write(f)
	if err = errors.Join(err, f.Truncate(size), f.Chmod(tableMode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(name, path)
}

// reserve keeps room for the next table file, as a file with all blocks allocated under a
// name that OpenSM does not read. A file that could not be created on a full disk can be
// written there.
func reserve(spare string, size int64) error {
	f, err := os.OpenFile(spare, os.O_CREATE|os.O_WRONLY, tableMode)
	if err != nil {
		return err
	}
	for _, size := range []int64{size + size/8, size} { // the next one may be longer
		if err = syscall.Fallocate(int(f.Fd()), 0, 0, size); err == nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
