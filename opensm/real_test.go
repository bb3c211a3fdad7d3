package opensm

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/testbed/routed"
	"github.com/forsd/forsd/topology"
)

// TestRealOpenSM runs a whole cycle with the real OpenSM: an empty table file, a first
// sweep, its settings, tables read back, new tables written and loaded on SIGHUP, a pulled
// cable, and the log of all that.
func TestRealOpenSM(t *testing.T) {
	if err := ibsim.Available(); err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		t.Skip("it starts OpenSM")
	}
	ctx := t.Context()
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3})
	sim, err := ibsim.Start(ctx, ibsim.Options{Fabric: f, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	dir := filepath.Join(sim.Dir(), "opensm-1")
	table := filepath.Join(dir, "forsd.lfts")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, table, nil)
	next := running(t, &Watcher{Dir: dir, GUID2LID: filepath.Join(dir, GUID2LIDFile), Report: func(code string, err error) {
		if err != nil && code != DumpMissing {
			t.Errorf("%s: %v", code, err)
		}
	}})
	m, err := sim.StartOpenSM(ctx, ibsim.OpenSMOptions{Host: "Hca0000", LMC: 2, RoutingEngine: "file,updn", LFTsFile: table, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	log := followed(t, m.LogFile())
	first := next()
	if n := len(first.Fabric.Nodes); n != len(f.Nodes) || first.Fabric.Nodes[0].Ports[1].LMC != 2 {
		t.Errorf("%d nodes of %d, LMC %d", n, len(f.Nodes), first.Fabric.Nodes[0].Ports[1].LMC)
	}

	finder := PIDFile{Path: m.PIDFile()}
	p, err := finder.Find(ctx)
	if err != nil || p.PID != m.PID() {
		t.Fatalf("found %+v, %v; want %d", p, err, m.PID())
	}
	s, err := LoadSettings(&p, "")
	if err != nil {
		t.Error(err)
	}
	for _, finding := range s.Check(Want{LFTsFile: table, DumpDir: dir, CacheDir: dir, Lanes: 3, LMC: 2}) {
		if finding.Code != HonorGUID2LIDOff {
			t.Errorf("%s: %s", finding.Code, finding.Text)
		}
	}

	want := planned(t, first.Fabric)
	if changed, err := WriteTables(table, func(w io.Writer) error { return want.Write(w, nil) }); err != nil || !changed {
		t.Fatal(changed, err)
	}
	swept, err := Sweep(ctx, finder)
	if err != nil || !swept.Same(p) {
		t.Fatalf("signalled %+v, %v", swept, err)
	}
	if again := loaded(ctx, t, sim, want, first.Fabric, next); again.Fabric.Hash() != first.Fabric.Hash() {
		t.Error("the sweep changed the fabric")
	}

	if err := sim.Unlink(ctx, "Leaf001", 4); err != nil {
		t.Fatal(err)
	}
	for shown := false; !shown; { // the pulled cable
		shown = next().Fabric.Hash() != first.Fabric.Hash()
	}
	events := log()
	for _, event := range events {
		if event == "engine used minhop fallback" || event == "table file rejected" || event == "routing failed" {
			t.Errorf("the log says: %s", event)
		}
	}
	if !slices.Contains(events, "engine used file") || !slices.Contains(events, "subnet up") {
		t.Errorf("the log says only %q", events)
	}

	m.Kill()
	if _, err := Sweep(ctx, finder); err == nil {
		t.Error("a dead OpenSM was signalled")
	}
}

// followed collects what a log says; the function returned gives it at the end.
func followed(t *testing.T, path string) func() []string {
	var mu sync.Mutex
	var events []string
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	up := make(chan struct{}, 100)
	go func() {
		defer close(ended)
		l := LogFollower{Path: path, FromStart: true, Poll: 10 * time.Millisecond, Event: func(e LogEvent) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, describeEvent(e))
			if e.Kind == SubnetUp {
				up <- struct{}{}
			}
		}}
		_ = l.Run(ctx)
	}()
	return func() []string {
		for range 3 { // the sweeps of the test
			<-up
		}
		stop()
		<-ended
		return events
	}
}

// planned are tables for every LID of f.
func planned(t *testing.T, f *topology.Fabric) *lft.Tables {
	t.Helper()
	tables, err := routed.Tables(f)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// loaded reads the tables out of the switches after every sweep until they are
// those wanted; a sweep that was under way at the signal may come first.
func loaded(ctx context.Context, t *testing.T, sim *ibsim.Sim, want *lft.Tables, f *topology.Fabric, next func() Snapshot) Snapshot {
	t.Helper()
	env, err := sim.Env("Hca0001")
	if err != nil {
		t.Fatal(err)
	}
	r := ReadBack{Timeout: time.Minute, Command: slices.Concat([]string{"env"}, env, sim.Prefix(), DefaultReadBack)}
	for {
		s := next()
		got, err := r.Tables(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err = lft.Compare(want, got, lft.LIDs(f)); err == nil {
			return s
		}
		t.Log(err)
	}
}
