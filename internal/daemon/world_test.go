package daemon

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
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
	worldFaults = flag.Int("world.faults", 40, "events of a history")
	worldFabric = flag.String("world.fabric", "6x6", "spines x leaves, or 4-ary for three levels")
	worldPlay   = flag.String("world.history", "", "events to play in place of those drawn by the seed")
	worldShrink = flag.Bool("world.shrink", false, "drop events of a history that fails as long as it fails")
	worldFirst  = flag.Bool("world.first", false, "end at the first history that fails")
	worldShow   = flag.Bool("world.show", false, "print the transcript")
)

// worldFabrics makes the healthy fabric of a history.
func healthyWorld(t testing.TB, name string) *topology.Fabric {
	var a, b int
	if _, err := fmt.Sscanf(name, "%dx%d", &a, &b); err == nil {
		lmc := uint8(0)
		for 1<<lmc < a {
			lmc++
		}
		return fabgen.Generate(fabgen.Spec{Spines: a, Leaves: b, LMC: lmc})
	}
	if _, err := fmt.Sscanf(name, "%d-ary", &a); err != nil {
		t.Fatalf("-world.fabric %s: want 6x6 or 4-ary", name)
	}
	s := fabgen.KAry(a)
	for 1<<s.LMC < a*a/4 {
		s.LMC++
	}
	return fabgen.GenerateTree(s)
}

// play plays a history, and returns its transcript and what was violated.
func play(t *testing.T, fabric string, seed uint64, history []happening) (lines []string, failure string) {
	t.Helper()
	dir, err := os.MkdirTemp(scratch(), "world")
	ok(t, err)
	defer os.RemoveAll(dir)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	plain := store.SyncPath
	defer func() { store.SyncPath = plain }()
	synctest.Test(t, func(t *testing.T) {
		set := worldSettings{fabric: healthyWorld(t, fabric), seed: seed, plugin: seed%2 == 1, traps: seed%4 < 2}
		w := newWorld(t, set, dir)
		ok(t, os.MkdirAll(filepath.Join(dir, "real", "state.away"), 0o755))
		w.disk = diskOf(t, filepath.Join(dir, "real", "state"), "size=64m")
		store.SyncPath = func(path string) error { return w.synced(path, plain) }
		w.manager.start()
		w.start()
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
		lines, failure = w.lines, w.failure
		w.manager.run++
		if w.forsd != nil {
			w.kill()
		}
		time.Sleep(2 * time.Minute)
	})
	return lines, failure
}

// shrink drops events from a history that violates something, as long as what is left does so, too.
func shrink(history []happening, lines []string, failure string, play func([]happening) ([]string, string)) ([]happening, []string, string) {
	digits := regexp.MustCompile(`[0-9]+`)
	sort := func(failure string) string { return digits.ReplaceAllString(failure[:min(40, len(failure))], "") }
	for part := (len(history) + 1) / 2; part > 0; {
		dropped := false
		for from := 0; from < len(history); {
			less := slices.Delete(slices.Clone(history), from, min(from+part, len(history)))
			if l, f := play(less); f != "" && sort(f) == sort(failure) {
				history, lines, failure, dropped = less, l, f, true
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
	return history, lines, failure
}

// scratch is a directory in memory, if there is one.
func scratch() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// found are histories that violated a promise when they were found, by their seed, shrunk.
var found = []struct {
	what    string
	seed    uint64
	history string
}{
	{"while its disk was read-only, forsd was killed, and after a restart the plan of a rollback was handed out whose number was below the last", 8027,
		"rollback:1185071101221399699:0s disk:5366852910885281506:997ms pull:3500699860977767675:0s kill:11305840401301570172:615ms"},
	{"a spine came back, no plan without a drained cable held on the tables, and the tables took the cable from the plan in force", 3016,
		"switch:10823925062084719056:0s pull:3448488566668588619:68ms plug:3998728484721363463:3.17s slow:9076391989657550694:0s switch:6814987924601095221:1.003s " +
			"pull:17641788463662029689:2.351s switch:5215267083201687082:19.761ms opensm:9823083636525665579:6.691ms drain:11979247726317665048:0s"},
	{"tables moved a base LID that the plan in force used, which was verified on tables without the entries of the plan for base LIDs", 8048,
		"pull:73471294915744437:3.808ms pull:11275673624170403308:3.418s pull:8916991020301583277:8.52ms plug:17409439499103054797:155ms pull:4555024385736712118:0s " +
			"pull:17676585726658777341:10.597ms pull:12107178435441381757:11ms slow:2219023834404209371:550ms plug:2205842191505041783:35ms " +
			"drain:15720140263128661504:0s pull:13993615268412998432:0s host:18310525130007140386:3.81s"},
}

// TestWorldFound plays the histories that were found.
func TestWorldFound(t *testing.T) {
	for _, f := range found {
		history, err := parseHistory(f.history)
		ok(t, err)
		if lines, failure := play(t, "6x6", f.seed, history); failure != "" {
			t.Errorf("%s: %s\n%s", f.what, failure, strings.Join(lines, "\n"))
		}
	}
}

// TestWorldTwice plays histories twice: same seed, same transcript.
func TestWorldTwice(t *testing.T) {
	for seed := uint64(1); seed <= uint64(max(2, *worldRuns)); seed++ {
		history := draw(seed, *worldFaults)
		first, _ := play(t, *worldFabric, seed, history)
		second, _ := play(t, *worldFabric, seed, history)
		for i := range max(len(first), len(second)) {
			if i >= len(first) || i >= len(second) || first[i] != second[i] {
				t.Errorf("seed %d differs from line %d on:\n%s\n\n%s", seed, i, strings.Join(first[max(0, min(i-3, len(first))):min(i+3, len(first))], "\n"), strings.Join(second[max(0, min(i-3, len(second))):min(i+3, len(second))], "\n"))
				break
			}
		}
	}
}

// TestWorld plays histories of a fabric, its manager and forsd.
func TestWorld(t *testing.T) {
	first, runs := *worldSeed, *worldRuns
	if first == 0 {
		first, runs = 1, max(runs, 6)
	}
	began, events := time.Now(), 0
	for seed := first; seed < first+uint64(max(runs, 1)); seed++ {
		history := draw(seed, *worldFaults)
		if *worldPlay != "" {
			var err error
			history, err = parseHistory(*worldPlay)
			ok(t, err)
		}
		lines, failure := play(t, *worldFabric, seed, history)
		events += len(history)
		if *worldShow {
			fmt.Println(strings.Join(lines, "\n"))
		}
		if failure != "" {
			fmt.Printf("seed %d: %s\n", seed, failure)
			if *worldShrink {
				history, lines, failure = shrink(history, lines, failure, func(h []happening) ([]string, string) { return play(t, *worldFabric, seed, h) })
			}
			if *worldFirst {
				t.Fatalf("after %d events in %v", events, time.Since(began))
			}
			t.Errorf("seed %d: %s\nby %v:\n%s", seed, failure, history, strings.Join(lines, "\n"))
		}
	}
	t.Logf("%d events in %v", events, time.Since(began))
}
