package daemon

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/exclusions"
)

// onlyPath names the event that a process of TestPath plays.
const onlyPath = "FORSD_TEST_PATH"

// TestPath takes a dead cable, and a drain, from the fabric to a new plan in force and tables read
// back. Built to count coverage (make path), it limits the files and packages with statements that
// run on the way, and not at a start.
func TestPath(t *testing.T) {
	healthy := fabric(4, 4)
	events := map[string]func(d *Daemon){
		"start":      func(*Daemon) {},
		"dead cable": func(d *Daemon) { d.atRest(t, lacking(healthy, 4, 1, 2)) },
		"drain": func(d *Daemon) {
			part, name, err := exclusions.Find(d.state.Now().Latest.Tree, "Leaf001/7")
			ok(t, err)
			at, _ := d.loop.atRest()
			at.stepDrains(t.Context(), exclusions.Order{Drain: exclusions.Drain{Part: part, Name: name, State: exclusions.Scheduled}})
			for list := d.state.Now().Drains; len(list) != 1 || !safe(list); list = d.state.Now().Drains {
				d.drive(t, healthy)
				select {
				case call := <-d.inbox.calls:
					call(t.Context(), d.loop)
				case <-time.After(time.Millisecond):
				}
				d.giveTurns(t.Context())
			}
		},
	}
	only := os.Getenv(onlyPath)
	if testing.CoverMode() == "" || only != "" {
		for name, happens := range events {
			if only != "" && only != name {
				continue
			}
			d := readable(newDaemon(t))
			hasty(d)
			d.atRest(t, healthy)
			before := d.state.Now().EpochNumber()
			happens(d)
			if now := d.state.Now().EpochNumber(); (now != before) != (name != "start") || d.core.State() != controller.Idle {
				t.Errorf("%s: epoch %d follows %d, and the controller is %s", name, now, before, d.core.State())
			}
		}
		return
	}
	start := covered(t, "start")
	for _, most := range []struct {
		name            string
		files, packages int // of the daemon
		all             int // files, with those of planners, tables and the verifier
	}{{"dead cable", 40, 18, 80}, {"drain", 45, 18, 90}} {
		var files, half, packages []string
		statements := 0
		for block, n := range covered(t, most.name) {
			if start[block] == 0 {
				file, _, _ := strings.Cut(block, ":")
				files = append(files, file)
				statements += n
			}
		}
		slices.Sort(files)
		files = slices.Compact(files)
		for _, f := range files {
			if top, _, _ := strings.Cut(f, "/"); slices.Contains([]string{"api", "controller", "internal", "opensm"}, top) {
				half, packages = append(half, f), append(packages, path.Dir(f))
			}
		}
		packages = slices.Compact(packages)
		t.Logf("%s: %d statements of %d files; of the daemon %d files of %d packages:\n%s", most.name, statements, len(files), len(half), len(packages), strings.Join(files, " "))
		if len(half) > most.files || len(packages) > most.packages || len(files) > most.all {
			t.Errorf("%s: at most %d files of the daemon, of %d packages, and %d files in all should run", most.name, most.files, most.packages, most.all)
		}
	}
}

// covered plays an event in another process, and returns the number of statements of each block
// that runs.
func covered(t *testing.T, event string) map[string]int {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "profile")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPath$", "-test.coverprofile="+profile)
	cmd.Env = append(os.Environ(), onlyPath+"="+event)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", event, err, out)
	}
	text, err := os.ReadFile(profile)
	ok(t, err)
	ran := map[string]int{}
	for line := range strings.Lines(string(text)) {
		block, is := strings.CutPrefix(line, "github.com/forsd/forsd/")
		if fields := strings.Fields(block); is && fields[2] != "0" { // lft/build.go:12.3,14.5 2 7
			n, err := strconv.Atoi(fields[1])
			ok(t, err)
			ran[fields[0]] = n
		}
	}
	return ran
}
