package opensm

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/topology"
)

// running starts a watcher on real events; next returns its next snapshot.
func running(t *testing.T, w *Watcher) (next func() Snapshot) {
	t.Helper()
	snapshots := make(chan Snapshot, 100)
	w.Deliver = func(s Snapshot) { snapshots <- s }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return func() Snapshot { return <-snapshots }
}

// TestEvents relies on events alone: the next poll is an hour away.
func TestEvents(t *testing.T) {
	f, dir := fabric(t, 2, 2, 0), t.TempDir()
	path := filepath.Join(dir, SubnetFile)
	put(t, path, dump(f))
	next := running(t, &Watcher{Dir: dir + "/", Poll: time.Hour})
	if s := next(); s.Fabric.Hash() != plainHash(t, f) {
		t.Error("the dump that was there first")
	}
	put(t, filepath.Join(dir, "other"), []byte("x"))
	for i := range 3 {
		g := f.Clone()
		g.Disconnect(topology.PortRef{Node: 0, Port: 1})
		if i%2 == 1 {
			g = f
		}
		put(t, path, dump(g))
		if s := next(); s.Fabric.Hash() != plainHash(t, g) {
			t.Errorf("write %d gave another fabric", i)
		}
	}
	if err := os.WriteFile(path+".tmp", dump(f), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		t.Fatal(err)
	}
	next()
}

// TestDirectoryReplaced takes the directory away, and moves it aside.
func TestDirectoryReplaced(t *testing.T) {
	f, dir := fabric(t, 2, 2, 0), filepath.Join(t.TempDir(), "a", "dumps")
	path := filepath.Join(dir, SubnetFile)
	next := running(t, &Watcher{Dir: dir, Poll: 20 * time.Millisecond})
	for _, away := range []func() error{
		func() error { return os.RemoveAll(filepath.Dir(dir)) },
		func() error { return os.Rename(dir, dir+".old") },
		func() error { return os.RemoveAll(dir) },
		func() error { return nil },
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			put(t, path, dump(f))
			next()
		}
		if err := away(); err != nil {
			t.Fatal(err)
		}
	}
}
