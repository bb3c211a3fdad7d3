package daemon

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

var (
	worldSeed   = flag.Uint64("world.seed", 0, "the first history of TestWorld; 0 plays some")
	worldRuns   = flag.Int("world.runs", 0, "how many histories, each with the next seed")
	worldFaults = flag.Int("world.faults", 40, "events of a history, about")
	worldFabric = flag.String("world.fabric", "6x6", "spines x leaves, 4-ary for three levels, or any: one drawn by the seed")
	worldPlay   = flag.String("world.history", "", "events to play in place of those drawn by the seed")
	worldShrink = flag.Bool("world.shrink", false, "drop events of a history that fails as long as it fails")
	worldFirst  = flag.Bool("world.first", false, "end at the first history that fails")
	worldCover  = flag.Bool("world.cover", false, "print how often each event met each state of forsd")
	worldFor    = flag.Duration("world.for", 0, "begin no history after so much processor time; 0 is no limit")
	worldShow   = flag.Bool("world.show", false, "print the transcript")
)

// healthyWorld makes the healthy fabric of a history.
func healthyWorld(t testing.TB, name string, seed uint64) *topology.Fabric {
	var a, b int
	if name == "any" {
		name = []string{"3x3", "4x4", "3x4", "4-ary", "3x3", "6x6", "5x4"}[seed%7] // events on large ones take longer; on 4x4, hosts have as many LIDs as there are lanes
	}
	if _, err := fmt.Sscanf(name, "%dx%d", &a, &b); err == nil {
		lmc := uint8(0)
		for 1<<lmc < a {
			lmc++
		}
		return fabgen.Generate(fabgen.Spec{Spines: a, Leaves: b, LMC: lmc})
	}
	if _, err := fmt.Sscanf(name, "%d-ary", &a); err != nil {
		t.Fatalf("-world.fabric %s: want 6x6, 4-ary or any", name)
	}
	s := fabgen.KAry(a)
	for 1<<s.LMC < a*a/4 {
		s.LMC++
	}
	return fabgen.GenerateTree(s)
}

// outcome is what became of a history.
type outcome struct {
	played  []happening // with the parts that they were about
	lines   []string    // the transcript
	failure string      // what was violated, "" if nothing
	cover   meetings
}

// play plays a history.
func play(t *testing.T, set worldSettings, history []happening) (out outcome) {
	t.Helper()
	dir, err := os.MkdirTemp(scratch(), "world")
	ok(t, err)
	defer os.RemoveAll(dir)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(4000)) // garbage is collected less often than it costs to
	plain := store.SyncPath
	defer func() { store.SyncPath = plain }()
	boot := store.SinceBoot
	defer func() { store.SinceBoot = boot }()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, set, dir)
		store.SyncPath = func(path string) error { return w.synced(path, plain) }
		store.SinceBoot = func() (time.Duration, string) { return w.boot(), "world" }
		w.each(func() {
			w.manager.start()
			w.start()
		})
		w.phases = 1 << 30
		w.rest()
		if w.failure == "" {
			w.phases = w.forsd.d.state.Plans.Current().Table.Phases()
		}
		for _, h := range history {
			if w.failure == "" {
				w.happen(h)
			}
		}
		if w.failure == "" {
			w.heal()
		}
		out = outcome{w.played, w.lines, w.failure, w.cover}
		w.each(func() {
			w.manager.run++
			if w.forsd != nil {
				w.kill()
			}
		})
		time.Sleep(2 * time.Minute)
	})
	return out
}

// shrink drops events from a history that violates something, as long as what is left does so,
// too. Parts that events are about are drawn again.
func shrink(bad outcome, play func([]happening) outcome) outcome {
	digits := regexp.MustCompile(`[0-9]+`)
	sort := func(failure string) string { return digits.ReplaceAllString(failure[:min(40, len(failure))], "") }
	history := slices.Clone(bad.played)
	for i := range history {
		history[i].parts = nil
	}
	for part := (len(history) + 1) / 2; part > 0; {
		dropped := false
		for from := 0; from < len(history); {
			less := slices.Delete(slices.Clone(history), from, min(from+part, len(history)))
			if o := play(less); o.failure != "" && sort(o.failure) == sort(bad.failure) {
				history, bad, dropped = less, o, true
			} else {
				from += part
			}
		}
		if part == 1 && !dropped {
			break
		}
		if part > 1 {
			part = (part + 1) / 2
		}
	}
	return bad
}

// scratch is a directory in memory, if there is one.
func scratch() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// TestWorldFound plays the histories that violated a promise when they were found.
func TestWorldFound(t *testing.T) {
	for _, f := range found {
		history, err := parseHistory(f.history)
		ok(t, err)
		if o := play(t, settingsOf(t, f.fabric, f.seed).with(f.site), history); o.failure != "" {
			t.Errorf("%s: %s\n%s", f.what, o.failure, strings.Join(o.lines, "\n"))
		}
	}
}

// TestWorldTwice plays histories twice: same seed, same transcript.
func TestWorldTwice(t *testing.T) {
	for _, seed := range append([]uint64{1, 2, 5, 9}, make([]uint64, max(0, *worldRuns-4))...) {
		if seed == 0 {
			seed = *worldSeed
			*worldSeed++
		}
		set := settingsOf(t, *worldFabric, seed)
		history := draw(set, *worldFaults)
		first, second := play(t, set, history).lines, play(t, set, history).lines
		for i := range max(len(first), len(second)) {
			if i >= len(first) || i >= len(second) || first[i] != second[i] {
				t.Errorf("seed %d differs from line %d on:\n%s\n\n%s", seed, i, strings.Join(first[max(0, min(i-3, len(first))):min(i+3, len(first))], "\n"), strings.Join(second[max(0, min(i-3, len(second))):min(i+3, len(second))], "\n"))
				break
			}
		}
	}
}

// TestWorld plays histories of a fabric, its managers and forsd.
func TestWorld(t *testing.T) {
	first, runs := *worldSeed, *worldRuns
	if first == 0 {
		first, runs = 1, max(runs, 6)
	}
	began, events, all := processorTime(t), 0, meetings{}
	for seed := first; seed < first+uint64(max(runs, 1)) && (*worldFor == 0 || processorTime(t)-began < *worldFor); seed++ {
		set := settingsOf(t, *worldFabric, seed)
		history := draw(set, *worldFaults)
		if *worldPlay != "" {
			var err error
			history, err = parseHistory(*worldPlay)
			ok(t, err)
		}
		o := play(t, set, history)
		events += len(o.played)
		for state, row := range o.cover {
			for kind, n := range row {
				all.add(state, kind, n)
			}
		}
		if *worldShow {
			fmt.Println(strings.Join(o.lines, "\n"))
		}
		if o.failure != "" {
			fmt.Printf("seed %d: %s\n", seed, o.failure)
			if *worldShrink {
				o = shrink(o, func(h []happening) outcome { return play(t, set, h) })
			}
			if t.Errorf("seed %d, %v: %s\nby %v:\n%s", seed, set, o.failure, o.played, strings.Join(o.lines, "\n")); *worldFirst {
				break
			}
		}
	}
	if *worldCover {
		fmt.Print(all)
	}
	took := processorTime(t) - began
	t.Logf("%d events in %v of processor time, %.0f an hour", events, took, float64(events)/took.Hours())
}
