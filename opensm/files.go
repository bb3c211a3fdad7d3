package opensm

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// version tells one state of a file from another.
type version struct {
	dev, ino uint64
	size     int64
	mod      time.Time
}

func versionOf(info os.FileInfo) version {
	v := version{size: info.Size(), mod: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		v.dev, v.ino = st.Dev, st.Ino
	}
	return v
}

func stat(path string) (version, error) {
	info, err := os.Stat(path)
	if err != nil {
		return version{}, err
	}
	return versionOf(info), nil
}

// readStable reads a regular file of at most limit bytes. The version is the
// one before reading; compare it with stat's to know that nothing changed.
func readStable(path string, limit int64) ([]byte, version, error) {
	// O_NONBLOCK avoids blocking on a FIFO.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, version{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, version{}, err
	}
	v := versionOf(info)
	if !info.Mode().IsRegular() {
		return nil, v, fmt.Errorf("read %s: it is not a regular file", path)
	}
	if v.size > limit {
		return nil, v, tooLarge(path, v.size, limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(data)) > limit {
		return nil, v, tooLarge(path, int64(len(data)), limit)
	}
	return data, v, err
}

func tooLarge(path string, size, limit int64) error {
	return fmt.Errorf("read %s: it has %d bytes, over the limit of %d; is it a dump of OpenSM?", path, size, limit)
}

// reporter passes reports on that differ from the last of their code.
type reporter struct {
	mu   sync.Mutex
	last map[string]string
	to   func(code string, err error)
}

func newReporter(to func(string, error)) *reporter {
	return &reporter{last: make(map[string]string), to: to}
}

func (r *reporter) report(code string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last[code] == text {
		return
	}
	r.last[code] = text
	if r.to != nil {
		r.to(code, err)
	}
}
