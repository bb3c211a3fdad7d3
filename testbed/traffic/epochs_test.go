package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/e2e"
)

// TestEpochs has cables die and come back under event builders with the shim and the
// library for lanes: over 200 events with five changes of epoch no fragment is lost,
// doubled or damaged, every packet goes over the lane that the first epoch has for its
// pair, and the library reports the connections with other lanes in later epochs. There
// are 16 event builders, and 36 with FORS_LONG=1.
func TestEpochs(t *testing.T) {
	ctx, o := prepared(t)
	if o.rate = 8_000_000; os.Getenv("FORS_LONG") != "" {
		o.n, o.rate = 6, 2_000_000
	}
	program := filepath.Join(o.dir, "eventbuilder")
	if out, err := exec.CommandContext(ctx, "mpicc", "-O2", "-o", program, "../../examples/eventbuilder.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := bring(ctx, o, e2e.Options{Forsd: o.forsd}, func(s *e2e.Site) error {
		err := s.Start(ctx)
		if err == nil {
			_, err = s.Settled(ctx, nil)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.end(); err != nil {
			t.Error(err)
		}
	}()
	by := byForsd{b}
	exchanges, err := by.exchanges(ctx)
	if err != nil {
		t.Fatal(err)
	}
	onLanes := exchanges[len(exchanges)-1]
	log := t.TempDir()
	cmd, err := b.data.MPI(ctx, o.n*o.n, append(onLanes.env, "FORS_LOG="+log), program, "-b", "4096")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := errors.Join(b.data.Clear(), cmd.Start()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ran := func(enough func(byEpoch map[string]int) error) {
		t.Helper()
		if err := b.Until(ctx, func() error {
			select {
			case err := <-ended:
				t.Fatalf("the event builders have ended: %v\n%s", err, out.String())
			default:
			}
			return enough(logged(t, log))
		}); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
	}
	states := []state{{}, {dead: []cable{{1, 2}}}, {dead: []cable{{1, 2}, {0, 3}}}, {dead: []cable{{0, 3}}}, {dead: []cable{{3, 1}}}, {}}
	for i, s := range states {
		if i > 0 {
			if err := b.change(ctx, states[i-1], s); err != nil {
				t.Fatal(err)
			}
		}
		st, err := b.Settled(ctx, b.shown(s))
		if err != nil {
			t.Fatal(err)
		}
		ran(func(byEpoch map[string]int) error {
			if n := byEpoch[fmt.Sprint(st.Epoch)]; n < 4 {
				return fmt.Errorf("%d exchanges by epoch %d", n, st.Epoch)
			}
			return nil
		})
	}
	var all int
	ran(func(byEpoch map[string]int) error { // two for each event
		all = 0
		for _, n := range byEpoch {
			all += n
		}
		if all < 400 {
			return fmt.Errorf("%d exchanges", all)
		}
		return nil
	})
	if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil { // mpirun passes it on
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	said := out.String()
	epochs := logged(t, log)
	if !strings.Contains(said, "lost 0, doubled 0, damaged 0\n") || len(epochs) < len(states) {
		t.Errorf("epochs %v\n%s", epochs, said)
	}
	if !strings.Contains(said, "connections are not on its lanes\n") {
		t.Errorf("nothing is said of connections that new epochs have on other lanes:\n%s", said)
	}
	flows, err := b.data.Flows(ctx)
	if err != nil {
		t.Fatal(err)
	}
	v, pairs := onLanes.plan, 0
	for f, packets := range flows {
		src, _ := v.FindLID(f.Src)
		dst, _ := v.FindLID(f.Dst)
		if src == dst {
			continue
		}
		pairs++
		p, ok := v.FindPair(src, dst)
		if slid := v.Server(src).LID + ib.LID(p.SrcPathBits); !ok || f.Dst != p.DLID || f.Src != slid {
			t.Errorf("%d packets from server %d to %d have LIDs %d and %d, want %d and %d", packets, src, dst, f.Src, f.Dst, slid, p.DLID)
		}
	}
	if n := o.n * o.n; pairs != n*(n-1) {
		t.Errorf("packets of %d pairs, want %d", pairs, n*(n-1))
	}
	c, err := b.data.Count(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d exchanges by epochs %v; packets lost at dead cables: %d\n%s", all, epochs, c.DeadPort+c.NoEntry, said[max(0, len(said)-600):])
}

// logged counts the exchanges that rank 0 has ended, by epoch.
func logged(t *testing.T, dir string) map[string]int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "rank-0.csv"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	n := map[string]int{}
	for l := range strings.Lines(string(data)) {
		if f := strings.Split(l, ","); len(f) > 4 && f[4] == "end" {
			n[f[2]]++
		}
	}
	return n
}

// prepared builds the programs of the tests, for 16 hosts.
func prepared(t *testing.T) (context.Context, options) {
	t.Helper()
	needed(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute, errors.New("the test takes too long"))
	t.Cleanup(cancel)
	o := options{n: 4, upTo: 2, bytes: 32 << 10, rounds: 1, rate: 2_000_000, dir: scratch, tell: func(measurement) {}}
	o.shim, o.lanes, o.forsd = filepath.Join(o.dir, "libforsmpi.so"), filepath.Join(o.dir, "libforslanes.so"), filepath.Join(o.dir, "forsd")
	if err := buildAll(ctx, o); err != nil {
		t.Fatal(err)
	}
	return ctx, o
}
