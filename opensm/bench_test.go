package opensm

import (
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkSnapshot is the way from a complete dump of FT(2;20,18) with LMC 5
// to the snapshot.
func BenchmarkSnapshot(b *testing.B) {
	f, dir := fabric(b, 20, 18, 5), b.TempDir()
	put(b, filepath.Join(dir, SubnetFile), dump(f))
	put(b, filepath.Join(dir, GUID2LIDFile), guid2lid(f))
	delivered := 0
	w := &Watcher{Dir: dir, GUID2LID: filepath.Join(dir, GUID2LIDFile), Deliver: func(Snapshot) { delivered++ }}
	b.ReportAllocs()
	for b.Loop() {
		w.start().step(time.Now())
	}
	if delivered != b.N {
		b.Errorf("%d snapshots of %d", delivered, b.N)
	}
}
