package opensm

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
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

// WriteRoot keeps the file that names the switch from which OpenSM's engine updn orders the
// others. It is the one at which the subnet manager is, since it is
// there whenever the manager sweeps. From a single switch updn finds a way between any two,
// and from a leaf all shortest ways between leaves; from the spines, which it takes by
// itself, none from a spine to a leaf whose cable is dead. Where the manager's place is not
// known, the switch is one of those with hosts.
func WriteRoot(path string, f *topology.Fabric) error {
	var root ib.GUID
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for p := range n.Ports {
			if n.Kind == topology.Switch || !n.Ports[p].Up() || f.Nodes[n.Ports[p].Peer].Kind != topology.Switch {
				continue
			}
			if root == 0 || n.GUID == f.SM {
				root = f.Nodes[n.Ports[p].Peer].GUID
			}
		}
	}
	text := []byte(root.String() + "\n")
	if old, err := os.ReadFile(path); root == 0 || err == nil && bytes.Equal(old, text) {
		return nil
	}
	return renameio.WriteFile(path, text, tableMode, renameio.IgnoreUmask())
}
