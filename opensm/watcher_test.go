package opensm

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forsd/forsd/topology"

	"github.com/google/go-cmp/cmp"
)

// rig is a watcher in a bubble, without fsnotify: change stands for an event.
type rig struct {
	*testing.T
	journal
	dir     string
	changed chan time.Time
}

// bubble runs test while a watcher runs, on a clock that moves when all goroutines wait.
func bubble(t *testing.T, setup func(w *Watcher), test func(r *rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, dir: dir, changed: make(chan time.Time, 1)}
		w := &Watcher{Dir: dir, Deliver: r.deliver, Report: r.report, Poll: time.Hour, Patience: 2 * time.Second}
		if setup != nil {
			setup(w)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.start().loop(ctx, r.changed) }()
		synctest.Wait()
		test(r)
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the watcher ended with %v", err)
		}
	})
}

// write changes a file, signals it, and lets d pass.
func (r *rig) write(name string, data []byte, d time.Duration) {
	r.Helper()
	put(r, filepath.Join(r.dir, name), data)
	signalOnce(r.changed, time.Now())
	time.Sleep(d)
	synctest.Wait()
}

// one expects exactly one snapshot, of f.
func (r *rig) one(f *topology.Fabric) Snapshot {
	r.Helper()
	got, _ := r.take()
	if len(got) != 1 {
		r.Fatalf("%d snapshots, want 1", len(got))
	}
	if diff := cmp.Diff(f.EndPorts(), got[0].Fabric.EndPorts()); diff != "" {
		r.Fatalf("the snapshot's ports (-want +got):\n%s", diff)
	}
	return got[0]
}

func (r *rig) reported(want ...string) {
	r.Helper()
	_, got := r.take()
	if !slices.Equal(got, want) {
		r.Fatalf("reports %q, want %q (%q)", got, want, r.texts)
	}
}

// TestHalfWritten lets a dump grow as stdio writes it, in whole blocks, in many
// fabrics: nothing may come before the end, and then the whole fabric.
func TestHalfWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 6 {
		f := fabric(t, 2+random.IntN(6), 2+random.IntN(6), 0)
		text := dump(f)
		bubble(t, nil, func(r *rig) {
			for n := 0; n < len(text); n += stdioBlock {
				r.write(SubnetFile, text[:n], time.Duration(random.IntN(15))*time.Millisecond)
				if got, _ := r.take(); len(got) > 0 {
					r.Fatalf("a snapshot after %d of %d bytes", n, len(text))
				}
			}
			start := time.Now()
			r.write(SubnetFile, text, 100*time.Millisecond)
			s := r.one(f)
			if late := s.CompleteAt.Sub(start); len(text)%stdioBlock != 0 && late > 0 {
				r.Errorf("the snapshot came %v after the last write", late)
			}
		})
	}
}

// TestWholeBlocks has a dump whose size is that of a half-written one.
func TestWholeBlocks(t *testing.T) {
	f := fabric(t, 8, 8, 0)
	missing := stdioBlock - len(dump(f))%stdioBlock
	for i := range f.Nodes { // a host's name stands in two lines
		if more := min(missing/2, 50); f.Nodes[i].Kind == topology.Adapter {
			f.Nodes[i].Name += strings.Repeat("x", more)
			missing -= 2 * more
		}
	}
	text := dump(f)
	if len(text)%stdioBlock != 0 {
		t.Fatal("the dump is not of whole blocks")
	}
	bubble(t, nil, func(r *rig) {
		r.write(SubnetFile, text, blockSettle-5*time.Millisecond)
		if got, _ := r.take(); len(got) > 0 {
			r.Fatal("a snapshot of a file that has not rested")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		r.one(f)
	})
}

// TestSameAgain checks that every sweep gives a snapshot, also one that found
// nothing new, and that events without a write give none.
func TestSameAgain(t *testing.T) {
	f := fabric(t, 3, 3, 0)
	bubble(t, nil, func(r *rig) {
		r.write(SubnetFile, dump(f), time.Second)
		first := r.one(f)
		signalOnce(r.changed, time.Now())
		time.Sleep(time.Second)
		if got, _ := r.take(); len(got) > 0 {
			r.Fatal("a snapshot without a write")
		}
		r.write(SubnetFile, dump(f), time.Second)
		if second := r.one(f); second.Fabric != first.Fabric || !second.SeenAt.After(first.SeenAt) {
			r.Errorf("the second sweep gave %+v after %+v", second, first)
		}
		g := f.Clone()
		g.Disconnect(topology.PortRef{Node: g.Find(0x200000), Port: 5})
		r.write(SubnetFile, dump(g), time.Second)
		if third := r.one(g); third.Fabric.Hash() == first.Fabric.Hash() {
			r.Error("a pulled cable does not show")
		}
	})
}

func TestMissingAndIncomplete(t *testing.T) {
	f := fabric(t, 3, 3, 0)
	text := dump(f)
	setup := func(w *Watcher) { w.Poll = time.Second }
	bubble(t, setup, func(r *rig) {
		time.Sleep(1900 * time.Millisecond)
		r.reported()
		time.Sleep(time.Second)
		r.reported(DumpMissing)
		r.write(SubnetFile, text[:len(text)/2], 1900*time.Millisecond)
		r.reported("-" + DumpMissing)
		time.Sleep(2 * time.Second)
		r.reported(DumpIncomplete)
		r.write(SubnetFile, text, time.Second)
		r.one(f)
		if err := os.Remove(filepath.Join(r.dir, SubnetFile)); err != nil {
			r.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		got, reports := r.take()
		if len(got) > 0 || !slices.Equal(reports, []string{DumpMissing}) {
			r.Errorf("after the dump was removed: %d snapshots, reports %q", len(got), reports)
		}
	})
}

// TestRefused gives dumps that cannot be used: they change nothing, are
// reported once, and the next good one ends the report.
func TestRefused(t *testing.T) {
	f := fabric(t, 2, 2, 0)
	good := dump(f)
	setup := func(w *Watcher) { w.MaxSize = 1 << 20 }
	for name, bad := range map[string][]byte{
		"garbage":   []byte("\x00\xff\x7fELF\n{{{\n"),
		"words":     []byte("this is not a dump\n"),
		"too large": bytes.Repeat([]byte("x\n"), 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup, func(r *rig) {
				r.write(SubnetFile, bad, time.Second)
				signalOnce(r.changed, time.Now())
				time.Sleep(time.Second)
				got, reports := r.take()
				if len(got) != 0 || !slices.Equal(reports, []string{DumpRefused}) {
					r.Fatalf("%d snapshots, reports %q", len(got), reports)
				}
				r.write(SubnetFile, good, time.Second)
				got, reports = r.take()
				if len(got) != 1 || !slices.Equal(reports, []string{"-" + DumpRefused}) {
					r.Fatalf("afterwards %d snapshots, reports %q", len(got), reports)
				}
			})
		})
	}
}

// TestUnreadable has the way to a dump that was delivered be closed, and opened again: the
// warning ends though the dump is the same.
func TestUnreadable(t *testing.T) {
	bubble(t, func(w *Watcher) { w.Poll = time.Second }, func(r *rig) {
		r.write(SubnetFile, dump(fabric(t, 2, 2, 0)), time.Second)
		r.take()
		aside := r.dir + ".aside"
		if err := errors.Join(os.Rename(r.dir, aside), os.WriteFile(r.dir, nil, 0o600)); err != nil { // ENOTDIR, for root may go anywhere
			r.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if _, reports := r.take(); !slices.Equal(reports, []string{DumpRefused}) {
			r.Fatalf("the way is closed, and reports are %q", reports)
		}
		if err := errors.Join(os.Remove(r.dir), os.Rename(aside, r.dir)); err != nil {
			r.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if _, reports := r.take(); !slices.Equal(reports, []string{"-" + DumpRefused}) {
			r.Fatalf("it is open again, and reports are %q", reports)
		}
	})
}

func TestLMC(t *testing.T) {
	f := fabric(t, 3, 3, 2)
	plain := f.Clone()
	if err := plain.SetLMC(1); err != nil {
		t.Fatal(err)
	}
	setup := func(w *Watcher) {
		w.GUID2LID = filepath.Join(w.Dir, GUID2LIDFile)
		w.LMC = func() uint8 { return 1 }
	}
	t.Run("settings", func(t *testing.T) {
		bubble(t, setup, func(r *rig) {
			r.write(SubnetFile, dump(f), time.Second)
			r.one(plain)
			r.reported()
		})
	})
	t.Run("guid2lid", func(t *testing.T) {
		bubble(t, setup, func(r *rig) {
			r.write(GUID2LIDFile, guid2lid(f), 0)
			r.write(SubnetFile, dump(f), time.Second)
			r.one(f)
		})
	})
	t.Run("late", func(t *testing.T) { // the cache comes after the dump
		bubble(t, setup, func(r *rig) {
			whole := guid2lid(f)
			_, lacking, _ := bytes.Cut(whole, []byte("\n\n"))
			r.write(GUID2LIDFile, lacking, 0)
			r.write(SubnetFile, dump(f), 100*time.Millisecond)
			if got, _ := r.take(); len(got) > 0 {
				r.Fatal("a snapshot with a stale cache")
			}
			r.write(GUID2LIDFile, whole, time.Millisecond)
			r.one(f)
			r.reported()
		})
	})
	t.Run("stale", func(t *testing.T) {
		bubble(t, setup, func(r *rig) {
			r.write(GUID2LIDFile, []byte("0x0000000000100001 0x0500 0x0503\n"), 0)
			r.write(SubnetFile, dump(f), 2*time.Second)
			got, reports := r.take()
			if len(got) != 1 || !slices.Equal(reports, []string{GUID2LIDStale}) || got[0].Fabric.Hash() != plainHash(r, plain) {
				r.Fatalf("%d snapshots, reports %q", len(got), reports)
			}
			before := got[0].Fabric.Hash()
			r.write(GUID2LIDFile, guid2lid(f), time.Second)
			s, reports := r.take()
			if len(s) != 1 || !slices.Equal(reports, []string{"-" + GUID2LIDStale}) {
				r.Fatalf("afterwards %d snapshots, reports %q", len(s), reports)
			}
			if diff := cmp.Diff(f.EndPorts(), s[0].Fabric.EndPorts()); diff != "" {
				r.Error(diff)
			}
			if got[0].Fabric.Hash() != before {
				r.Error("a delivered fabric has changed")
			}
		})
	})
}

// plainHash returns the hash of f as read from a dump.
func plainHash(tb testing.TB, f *topology.Fabric) string {
	tb.Helper()
	g, err := topology.ReadSubnetLst(dump(f))
	if err != nil {
		tb.Fatal(err)
	}
	if err := g.SetLMC(f.Nodes[0].Ports[1].LMC); err != nil {
		tb.Fatal(err)
	}
	return g.Hash()
}
