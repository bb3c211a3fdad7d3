package main

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// healthy is the world of a fabric with all its cables.
func healthy(t *testing.T, spines, leaves int) *world {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: spines, Leaves: leaves, LMC: 3})
	fabgen.AssignLIDs(f, 3)
	b, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := topology.Fit(f, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return newWorld(tree, 0, leaves-1)
}

// TestDraw draws many events. The same seed gives the same; each can be read back from its
// text, and carries a second world to the same state; no two leaves are ever cut off from
// each other; and every kind of change and disturbance comes.
func TestDraw(t *testing.T) {
	for _, size := range [][2]int{{4, 4}, {6, 6}, {8, 5}} {
		a, b, c := healthy(t, size[0], size[1]), healthy(t, size[0], size[1]), healthy(t, size[0], size[1])
		r1, r2 := rand.New(rand.NewPCG(7, 19)), rand.New(rand.NewPCG(7, 19))
		seen := map[string]int{}
		for range 3000 {
			e := a.draw(r1, nil)
			if same := b.draw(r2, nil); e.String() != same.String() {
				t.Fatalf("one seed gave %q and %q", e, same)
			}
			read, err := parseEvent(e.String())
			if err != nil || read.String() != e.String() {
				t.Fatalf("%q reads as %q: %v", e, read, err)
			}
			if _, err := c.take(read); err != nil {
				t.Fatal(err)
			}
			if !c.whole() {
				t.Fatalf("after %q too much is gone", e)
			}
			for l, states := range a.picture().cables {
				if !slices.Equal(states, c.picture().cables[l]) {
					t.Fatalf("after %q leaf %d is %v and %v", e, l, states, c.picture().cables[l])
				}
			}
			seen[e.Change]++
			seen[e.With]++
		}
		for _, kind := range []string{"pull", "plug", "flap", "errors", "release", "slow", "fast", "drain", "drain-for", "undrain", "lease", "host-pull", "host-plug", "spine-off", "spine-on", "leaf-off", "leaf-on", "miswire", "rewire",
			"kill-forsd", "kill-opensm", "disk-full", "clock", "hang-forsd", "handover"} {
			if seen[kind] < 20 {
				t.Errorf("%v: %s came %d times in 3000 events", size, kind, seen[kind])
			}
		}
	}
}

// fabric is the fabric as the events have left it, as OpenSM's dump would show it.
func (w *world) fabric() *topology.Fabric {
	f := w.tree.Fabric.Clone()
	end := func(p place) topology.PortRef {
		n := slices.IndexFunc(f.Nodes, func(n topology.Node) bool { return n.Name == p.Node })
		return topology.PortRef{Node: int32(n), Port: uint8(p.Port)}
	}
	var gone, cross []topology.PortRef
	for l := range w.leaves {
		for k := range w.tree.Lanes {
			here, there := end(w.port(l, k)), end(w.far(l, k))
			switch {
			case !w.plugged(l, k):
				gone = append(gone, here)
			case w.cables[l][k] == slow:
				f.At(here).Rate, f.At(there).Rate = ib.Rate{Width: 1, Speed: f.At(here).Rate.Speed}, ib.Rate{Width: 1, Speed: f.At(there).Rate.Speed}
			}
		}
	}
	for _, p := range w.cross {
		leaf, lane, _ := w.cable(p)
		cross = append(cross, end(p), end(w.far(leaf, lane)))
	}
	if cross != nil {
		for i, other := range []int{3, 2, 1, 0} {
			f.At(cross[i]).Peer, f.At(cross[i]).PeerPort = cross[other].Node, cross[other].Port
		}
	}
	for h, off := range w.hosts {
		if off || w.leaves[w.tree.Hosts[h].Leaf] {
			gone = append(gone, end(w.seat(h)))
		}
	}
	f = f.Without(gone...)
	f.Nodes = slices.Clone(f.Nodes)
	return f
}

// TestPicture compares the fabric that the campaign expects after each event with the fabric that
// the baseline gives, with drained and isolated parts held back.
func TestPicture(t *testing.T) {
	for _, size := range [][2]int{{4, 4}, {6, 5}} {
		for seed := range uint64(4) {
			w, rng := healthy(t, size[0], size[1]), rand.New(rand.NewPCG(seed, 19))
			for n := range 1000 {
				e := w.draw(rng, nil)
				if err := w.expect(describe.Topology(w.seen(t), time.Time{})); err != nil {
					t.Fatalf("%v, seed %d, event %d, %v: %v", size, seed, n+1, e, err)
				}
			}
		}
	}
}

// seen is the fabric as forsd sees it through its baseline.
func (w *world) seen(t *testing.T) *topology.FatTree {
	t.Helper()
	tree, err := topology.Fit(w.fabric(), w.tree.Baseline, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []exclusions.Drain
	for _, name := range w.drains {
		d := exclusions.Drain{State: exclusions.Safe, Part: exclusions.Part{Kind: exclusions.Cable}}
		at, err := parsePlace(name)
		if err != nil {
			at, d.Kind = place{Node: name}, exclusions.Leaf
		}
		d.Port = uint8(at.Port)
		for i := range w.tree.Fabric.Nodes {
			if n := &w.tree.Fabric.Nodes[i]; n.Name == at.Node {
				d.GUID = n.GUID
			}
		}
		list = append(list, d)
	}
	var excluded exclusions.Set
	excluded.Replace(exclusions.Drained, exclusions.DrainedCables(exclusions.Links(tree), list))
	var bad []ib.End
	for _, p := range w.bad {
		l := slices.IndexFunc(w.tree.Leaves, func(l topology.Leaf) bool { return l.Name == p.Node })
		bad = append(bad, ib.End{GUID: w.tree.Leaves[l].GUID, Port: uint8(p.Port)})
	}
	excluded.Replace(exclusions.Isolated, bad)
	for _, x := range excluded.Lanes(tree, exclusions.Any) {
		tree.Hold(x.Leaf, x.Lane)
	}
	return tree
}

// TestDisturbances checks that 1000 events of a seed disturb as often as the release process
// requires.
func TestDisturbances(t *testing.T) {
	for seed := range uint64(10) {
		f := &figures{kinds: map[string]int{}}
		w, rng := healthy(t, 6, 6), rand.New(rand.NewPCG(seed, 19))
		for range 1000 {
			f.add(w.draw(rng, nil), 0, 0)
		}
		for kind, least := range map[string]int{"with kill-forsd": 200, "with kill-opensm": 50, "with disk-full": 20, "with clock stepped": 20, "with clock standing": 5, "with handover": 10, "with hang-forsd": 5} {
			if f.kinds[kind] < least {
				t.Errorf("seed %d: %s came %d times, want %d", seed, kind, f.kinds[kind], least)
			}
		}
	}
}

// TestReplay draws events, writes the log of their run, and reads it: the same events come,
// in the same mode and on the same fabric, without the unwanted disturbances.
func TestReplay(t *testing.T) {
	o := options{Seed: 3, Events: 500, Mode: "files", Fabric: "4x5", Without: "handover", Log: filepath.Join(t.TempDir(), "log")}
	drawn, err := source(o, healthy(t, 4, 5))
	if err != nil {
		t.Fatal(err)
	}
	var all []event
	log := o.head() + "\n"
	for e, ok := drawn(); ok; e, ok = drawn() {
		all = append(all, e)
		log += e.String() + " # 10:00:00.000 31ms, 1 plans, the first after 12.0 ms\n#   SUBNET UP\n"
	}
	if err := os.WriteFile(o.Log, []byte(log), 0o644); err != nil {
		t.Fatal(err)
	}
	again := options{Replay: o.Log, Log: o.Log, Without: "clock"}
	if err := again.takeHead(); err != nil || again.Mode != o.Mode || again.Fabric != o.Fabric || again.Log == o.Log {
		t.Fatalf("%+v: %v", again, err)
	}
	read, err := source(again, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range all {
		if want.With == "clock" {
			want = event{Change: want.Change, Where: want.Where}
		}
		if e, ok := read(); !ok || e.String() != want.String() {
			t.Fatalf("event %d is %q, and was %q", n+1, e, want)
		}
	}
	if e, ok := read(); ok || len(all) != o.Events {
		t.Fatalf("%d events, and one more: %q", len(all), e)
	}
}

// TestBadEvents checks that invalid logs are refused.
func TestBadEvents(t *testing.T) {
	for _, text := range []string{"", "pull Leaf000/5 with kill-forsd", "pull Leaf000/5 with kill-forsd soon", "pull Leaf000/5 with clock 3ms x"} {
		if e, err := parseEvent(text); err == nil {
			t.Errorf("%q reads as %+v", text, e)
		}
	}
	for _, text := range []string{"plug Leaf000/5", "pull Leaf009/5", "pull Leaf000", "spine-on Spine000", "leaf-off Leaf000", "rewire", "melt Leaf000/5"} {
		e, err := parseEvent(text)
		if err == nil {
			_, err = healthy(t, 4, 4).take(e)
		}
		if err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// TestSoak carries out a few events by the plugin, on two levels and on three; see make soak.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts OpenSM")
	}
	if err := ibsim.Available(); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	dir := t.TempDir()
	forsd, err := e2e.Build(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := e2e.BuildPlugin(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []options{{Seed: 4, Events: 20, Fabric: "4x4"}, {Seed: 5, Events: 10, Fabric: "4-ary"}} {
		o.Mode, o.Without, o.Forsd, o.Plugin = "plugin", "clock", forsd, plugin
		o.Log = filepath.Join(dir, o.Fabric)
		f, err := o.carryOut(ctx)
		if err != nil {
			text, _ := os.ReadFile(o.Log)
			t.Fatalf("%v\n%s", err, text)
		}
		if f.events != o.Events || f.plans == 0 {
			t.Errorf("%s: %d events and %d plans", o.Fabric, f.events, f.plans)
		}
		f.print(t.Output(), "")
	}
}

// TestArity distinguishes fabrics of two levels and of three.
func TestArity(t *testing.T) {
	for fabric, want := range map[string]int{"4-ary": 4, "12-ary": 12, "6x6": 0, "20x18": 0, "6": 0, "x-ary": 0} {
		if got := (options{Fabric: fabric}).arity(); got != want {
			t.Errorf("%s: %d, want %d", fabric, got, want)
		}
	}
}
