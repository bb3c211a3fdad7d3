package daemon

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/exclusions"
)

// TestPath takes a dead cable, and a drain, from the fabric to a new plan in force and tables read
// back. Built to count coverage (make path), it limits the files and packages that run on the way.
func TestPath(t *testing.T) {
	healthy := fabric(4, 4)
	for _, c := range []struct {
		name            string
		files, packages int // at most
		happens         func(d *Daemon)
	}{
		{"dead cable", 40, 16, func(d *Daemon) { d.atRest(t, lacking(healthy, 4, 1, 2)) }},
		{"drain", 45, 18, func(d *Daemon) {
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
		}},
	} {
		d := readable(newDaemon(t))
		hasty(d)
		d.atRest(t, healthy)
		before := d.state.Now().EpochNumber()
		files := covered(t, func() { c.happens(d) })
		if now := d.state.Now(); now.EpochNumber() == before || d.core.State() != controller.Idle {
			t.Errorf("%s: the plan stays, and the controller is %s", c.name, d.core.State())
		}
		var packages []string
		for _, f := range files {
			packages = append(packages, path.Dir(f))
		}
		packages = slices.Compact(packages)
		t.Logf("%s: %d files of %d packages: %s", c.name, len(files), len(packages), strings.Join(packages, " "))
		if len(files) > c.files || len(packages) > c.packages {
			t.Errorf("%s: at most %d files of %d packages should run", c.name, c.files, c.packages)
		}
	}
}

// covered lists the project's files with statements that run in f, ascending; none unless the test
// is built to count coverage.
func covered(t *testing.T, f func()) (files []string) {
	if testing.CoverMode() != "atomic" {
		f()
		return nil
	}
	dir := t.TempDir()
	ok(t, coverage.WriteMetaDir(dir), coverage.ClearCounters())
	f()
	ok(t, coverage.WriteCountersDir(dir))
	text := filepath.Join(dir, "profile")
	if out, err := exec.CommandContext(t.Context(), "go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+text).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	profile, err := os.ReadFile(text)
	ok(t, err)
	for line := range strings.Lines(string(profile)) {
		if file, counts, is := strings.Cut(line, ".go:"); is && !strings.HasSuffix(counts, " 0\n") {
			files = append(files, strings.TrimPrefix(file, "github.com/forsd/forsd/")+".go")
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}
