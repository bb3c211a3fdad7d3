package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/forsd/forsd/testbed/ibsim"
)

//go:embed tap/tap.c
var tapSource []byte

// buildTap compiles the library with which OpenSM is watched.
func buildTap(ctx context.Context, dir string) (string, error) {
	source, library := filepath.Join(dir, "tap.c"), filepath.Join(dir, "libforstap.so")
	if err := os.WriteFile(source, tapSource, 0o644); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared",
		"-Wl,-soname,libforstap.so", "-isystem", "/usr/include/infiniband", "-o", library, source, "-ldl").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w: install gcc and libopensm-dev: %s", library, err, out)
	}
	return library, nil
}

// deed is the kind of a record of the tap.
type deed uint32

// The kinds, as tap.c numbers them.
const (
	trap       deed = iota + 1 // received; the detail is its number
	sweep                      // a heavy sweep begins
	discovered                 // the fabric is discovered
	engine                     // the routing engine is called
	block                      // a block of a forwarding table is sent; the detail is its number
	routed                     // the switches have confirmed their tables
	up                         // the sweep has ended well
)

// record tells when something happened in OpenSM.
type record struct {
	at     time.Time
	kind   deed
	detail uint32
}

// The layout of the file that the tap writes, and how many records it has room
// for.
const (
	tapHead   = 16
	tapRecord = 16
	tapRoom   = 1 << 22
)

// tap is the file that a tap writes, mapped into memory.
type tap struct {
	library, path string
	memory        []byte
}

func newTap(library, path string) (*tap, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := tapHead + tapRoom*tapRecord
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &tap{library, path, memory}, nil
}

func (t *tap) close() error { return syscall.Munmap(t.memory) }

// watch makes an OpenSM load the tap as well as its own plugin, if any.
func (t *tap) watch(o *ibsim.OpenSMOptions) {
	o.Conf = maps.Clone(o.Conf)
	o.Conf["event_plugin_name"] = "forstap" // it is loaded already
	if o.Plugin != "" {
		o.Conf["event_plugin_name"] += ",forsosm"
	}
	o.Wrap = []string{"env", "FORSTAP=" + t.path, "sh", "-c", `LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"`, t.library}
}

// length is the number of records so far.
func (t *tap) length() int {
	return int(min(atomic.LoadUint64((*uint64)(unsafe.Pointer(&t.memory[0]))), tapRoom))
}

// since are the records from a number on. All of them are complete once OpenSM
// is quiet.
func (t *tap) since(n int) []record {
	var out []record
	for ; n < t.length(); n++ {
		b := t.memory[tapHead+n*tapRecord:]
		out = append(out, record{time.Unix(0, int64(binary.LittleEndian.Uint64(b))),
			deed(binary.LittleEndian.Uint32(b[8:])), binary.LittleEndian.Uint32(b[12:])})
	}
	return out
}

// quiet waits until OpenSM has done nothing for a while after the end of a sweep
// that began after record n.
func (t *tap) quiet(ctx context.Context, n int, while time.Duration) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	last, since := n, time.Now()
	for {
		if now := t.length(); now != last {
			last, since = now, time.Now()
		} else if time.Since(since) >= while && ended(t.since(n)) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of OpenSM's sweep: %w", context.Cause(ctx))
		}
	}
}

// ended reports whether the last sweep has ended.
func ended(records []record) bool {
	over := false
	for _, r := range records {
		switch r.kind {
		case sweep:
			over = false
		case up:
			over = true
		}
	}
	return over
}
