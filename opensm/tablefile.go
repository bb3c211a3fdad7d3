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

// mostTables is more than tables without comments take: every switch of a large
// fabric, 26 bytes an entry.
const mostTables = 1 << 26

// InstallEmpty creates an empty table file where there is none, and tells
// whether it did; a file that exists stays as it is. With the file engine and
// no_fallback OpenSM does not come up without one (ERR 6302); an empty one
// gives every dump that forsd needs.
func InstallEmpty(path string) (created bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, fmt.Errorf("install an empty table file: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, tableMode)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err == nil {
		err = errors.Join(f.Chmod(tableMode), f.Sync(), f.Close(), syncDir(filepath.Dir(path)))
	}
	if err != nil {
		return false, fmt.Errorf("install an empty table file: %w", err)
	}
	return true, nil
}

// WriteTables replaces the table file by what write writes, and tells whether
// that changed a byte of it; an equal file is left alone. The file is replaced
// by a rename, so that OpenSM reads the old or the new one whole: one cut off
// at a line's end would be taken for good, and empty the switches it lacks. It
// is on disk when WriteTables returns; where that alone failed, both results say
// so. There must be one writer at a time; what one that was killed has left behind
// is used up by the next.
func WriteTables(path string, write func(io.Writer) error) (changed bool, err error) {
	var text bytes.Buffer
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		text.Grow(int(min(info.Size(), mostTables)) + bytes.MinRead) // the new file is mostly as long
	}
	if err := write(&text); err != nil {
		return false, fmt.Errorf("write tables: %w", err)
	}
	if same, err := holds(path, text.Bytes()); err != nil {
		return false, fmt.Errorf("write tables: %w", err)
	} else if same {
		return false, nil
	}
	if changed, err = replace(path, text.Bytes()); err != nil {
		return changed, fmt.Errorf("write tables: %w", err)
	}
	return true, nil
}

// holds tells whether the file at path is a plain one with exactly this text.
func holds(path string, text []byte) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != tableMode || info.Size() != int64(len(text)) {
		return false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for part := make([]byte, min(len(text), 1<<16)); len(text) > 0; { // most files differ soon
		n, err := io.ReadFull(f, part[:min(len(text), len(part))])
		if err != nil || !bytes.Equal(part[:n], text[:n]) {
			return false, err
		}
		text = text[n:]
	}
	return true, nil
}

// replace puts a file of this text in the place of path, and tells whether it is
// there. The temporary file has a fixed name, so that a crash leaves at most one. Where
// the disk is full, the spare takes its place.
func replace(path string, text []byte) (done bool, err error) {
	temporary, spare := path+".new", path+".spare"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err = become(path, temporary, os.O_CREATE|os.O_EXCL, text); err != nil {
		if left := os.Remove(temporary); !errors.Is(left, fs.ErrNotExist) {
			err = errors.Join(err, left)
		}
	}
	if errors.Is(err, syscall.ENOSPC) {
		if info, missing := os.Stat(spare); missing == nil && info.Size() >= int64(len(text)) {
			err = become(path, spare, 0, text)
		}
	}
	if err != nil {
		return false, err
	}
	err = syncDir(filepath.Dir(path))
	_ = reserve(spare, int64(len(text))) // it is for what may not happen
	return true, err
}

// become writes a file and renames it to path.
func become(path, name string, flags int, text []byte) error {
	f, err := os.OpenFile(name, flags|os.O_WRONLY, tableMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Truncate(int64(len(text))), f.Chmod(tableMode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(name, path)
}

// reserve keeps room for the next table file, as a file that OpenSM does not know, which
// has all its blocks: one that cannot be made anew on a full disk can be written there.
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
