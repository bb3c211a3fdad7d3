package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/fabgen"
)

// wire is the connection of one forsd to the other one. It can be cut.
type wire struct {
	net.Listener
	to string

	mu    sync.Mutex // guards what follows
	cut   bool
	conns map[net.Conn]bool
}

// between makes a site's forsd reach the other one over a wire.
func between(x *test) *wire {
	x.Helper()
	path := filepath.Join(x.Dir(), "peer.sock")
	l, err := net.Listen("unix", path)
	x.ok(err)
	w := &wire{Listener: l, to: filepath.Join(x.other(), "forsd.sock"), conns: map[net.Conn]bool{}}
	x.Cleanup(func() { _ = l.Close() })
	text, err := os.ReadFile(x.ConfigFile())
	x.ok(err)
	if !strings.Contains(string(text), w.to) {
		x.Fatalf("forsd is not told of %s", w.to)
	}
	x.ok(os.WriteFile(x.ConfigFile(), []byte(strings.ReplaceAll(string(text), w.to, path)), 0o644))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.carry(c)
		}
	}()
	return w
}

// carry joins a connection to the other forsd.
func (w *wire) carry(c net.Conn) {
	far, err := net.Dial("unix", w.to)
	w.mu.Lock()
	if err != nil || w.cut {
		w.mu.Unlock()
		_ = c.Close()
		if far != nil {
			_ = far.Close()
		}
		return
	}
	w.conns[c], w.conns[far] = true, true
	w.mu.Unlock()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{c, far}, {far, c}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			done <- struct{}{}
		}()
	}
	<-done
	w.mu.Lock()
	delete(w.conns, c)
	delete(w.conns, far)
	w.mu.Unlock()
	_, _ = c.Close(), far.Close()
}

// set cuts the wire, with its connections, or mends it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for c := range w.conns {
		if cut {
			_ = c.Close()
		}
	}
}

// agrees waits until a site's forsd follows one at rest: the leader may still have to hear of
// the other one's numbers, and to continue above them.
func (x *test) agrees(leader *test) {
	x.Helper()
	ctx, cancel := x.within()
	defer cancel()
	x.ok(leader.Until(ctx, func() error {
		a, err := leader.Client.Status(ctx)
		if err == nil {
			err = settled(a)
		}
		var b *api.Status
		if err == nil {
			b, err = x.Client.Status(ctx)
		}
		if err == nil && (!b.OpenSM.Standby || b.State != "idle" || b.Epoch != a.Epoch || b.TopologyHash != a.TopologyHash) {
			err = fmt.Errorf("the leader has epoch %d on %s, and the other one, %s, epoch %d on %s", a.Epoch, a.TopologyHash, b.State, b.Epoch, b.TopologyHash)
		}
		return err
	}))
}

// readers read from both forsd: a number is one plan, by either of them, and numbers go down
// at neither.
type readers struct {
	plans map[uint64][]byte
	last  [2]uint64
}

// read reads the plan in force of both.
func (r *readers) read(sites ...*test) {
	for i, x := range sites {
		x.Helper()
		v, err := x.Client.Table(x.ctx)
		x.ok(err)
		n := v.Epoch()
		if was := r.plans[n]; was != nil && !bytes.Equal(was, v.Bytes()) {
			x.Fatalf("number %d stands for two plans", n)
		}
		if n < r.last[i] {
			x.Fatalf("forsd %d had number %d and has number %d", i+1, r.last[i], n)
		}
		r.plans[n], r.last[i] = v.Bytes(), n
	}
}

// TestApart takes two managers with a forsd each through rounds in which the two forsd may not
// reach each other, in one direction or in both, one manager takes over from the other one, and
// cables are pulled and put back. In each of them
// the forsd at the master leads, its plan holds on the tables read back, and no number stands for
// two plans or goes down; and when they reach each other the other one has the same plan.
// FORS_LONG=1 has 100 rounds, and clocks that differ by up to a year.
func TestApart(t *testing.T) {
	t.Parallel()
	rounds := many(4, 100)
	forsd, err := steppable()
	if err != nil {
		t.Fatal(err)
	}
	var wires [2]*wire
	x, y, healthy := pair(t, Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4}), LMC: 2, Forsd: forsd}, func(x, y *test) {
		wires = [2]*wire{between(x), between(y)}
	})
	sites, leads := []*test{x, y}, 0
	load, seen := &cables{test: x, tree: healthy.Tree}, &readers{plans: map[uint64][]byte{}}
	rng := rand.New(rand.NewPCG(33, 100))
	const hour = 3600
	for round := range rounds {
		began, were := time.Now(), leads
		var cut [2]bool
		for i := range sites {
			cut[i] = rng.IntN(2) == 0
			wires[i].set(cut[i])
		}
		for _, s := range sites {
			s.ok(s.SetClock([]int{0, hour, -hour, 24 * hour, -24 * hour, 365 * 24 * hour, -365 * 24 * hour}[rng.IntN(7)], false))
		}
		want := load.next()
		seen.read(sites...)
		if rng.IntN(2) == 0 {
			if leads == 0 {
				x.SM.Kill()
			} else {
				x.ok(x.SM.Restart(x.ctx))
			}
			leads = 1 - leads
		}
		leader, other := sites[leads], sites[1-leads]
		leader.leads(want)
		leader.check()
		seen.read(sites...)
		if last := round == rounds-1; last || rng.IntN(2) == 0 {
			for _, w := range wires {
				w.set(false)
			}
			other.agrees(leader)
			other.follows(leader)
			leader.settled(want)
			leader.check()
			seen.read(sites...)
		}
		t.Logf("round %d: cut %v, forsd %d leads after forsd %d, %d plans so far, %v", round+1, cut, leads+1, were+1, len(seen.plans), time.Since(began).Round(time.Millisecond))
	}
}
