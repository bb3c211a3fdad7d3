package opensm

import (
	"os"
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

// BenchmarkGrowing looks at the same dump after each block that OpenSM writes of
// it: what watching costs on top of BenchmarkSnapshot.
func BenchmarkGrowing(b *testing.B) {
	f, dir := fabric(b, 20, 18, 5), b.TempDir()
	text, path := dump(f), filepath.Join(dir, SubnetFile)
	delivered := 0
	w := &Watcher{Dir: dir, Deliver: func(Snapshot) { delivered++ }}
	b.ReportAllocs()
	for b.Loop() {
		put(b, path, nil)
		out, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			b.Fatal(err)
		}
		s := w.start()
		for at := 0; at < len(text); at += stdioBlock {
			if _, err := out.Write(text[at:min(at+stdioBlock, len(text))]); err != nil {
				b.Fatal(err)
			}
			s.step(time.Now())
		}
		out.Close()
	}
	if delivered != b.N {
		b.Errorf("%d snapshots of %d", delivered, b.N)
	}
}
