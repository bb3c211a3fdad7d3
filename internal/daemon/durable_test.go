package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// disk is a file system for a state directory, which fails in every way. If this process
// may not mount one, an unwritable directory is used instead.
type disk struct {
	t       *testing.T
	path    string
	size    string // an option of its file system
	mounted bool
	fault   string // "" if none
}

// faults lists the faults of a disk.
var faults = []string{"full", "read-only", "gone", "removed", "another"}

func newDisk(t *testing.T, path string) *disk {
	t.Helper()
	return diskOf(t, path, "size=2m")
}

// diskOf is newDisk with an option of the file system that limits its size.
func diskOf(t *testing.T, path, size string) *disk {
	t.Helper()
	ok(t, os.MkdirAll(path, 0o755))
	d := &disk{t: t, path: path, size: size, mounted: syscall.Mount("fors", path, "tmpfs", 0, size) == nil}
	if !d.mounted && os.Getuid() == 0 {
		t.Log("a file system cannot be mounted here")
	}
	t.Cleanup(func() {
		for _, path := range []string{path, path, path + ".away"} { // not all of them are mounted
			_ = syscall.Unmount(path, syscall.MNT_DETACH)
		}
	})
	return d
}

func (d *disk) filler() string { return filepath.Join(d.path, "filler") }

// fail starts a fault.
func (d *disk) fail(fault string) {
	d.t.Helper()
	if !d.mounted && (fault == "full" || fault == "read-only" || fault == "another") {
		fault = "removed"
	}
	switch d.fault = fault; fault {
	case "full":
		f, err := os.Create(d.filler())
		ok(d.t, err)
		for _, n := range []int{1 << 16, 1} {
			for block := make([]byte, n); err == nil; {
				_, err = f.Write(block)
			}
			if !errors.Is(err, syscall.ENOSPC) {
				d.t.Fatal(err)
			}
			err = nil
		}
		ok(d.t, f.Close())
	case "read-only":
		ok(d.t, syscall.Mount("", d.path, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, d.size))
	case "gone": // and nothing can be created at the path
		if d.mounted {
			ok(d.t, syscall.Mount(d.path, d.path+".away", "", syscall.MS_MOVE, ""))
			ok(d.t, os.Remove(d.path))
		} else {
			ok(d.t, os.Rename(d.path, d.path+".away/it"))
		}
		ok(d.t, os.WriteFile(d.path, nil, 0o600))
	case "removed":
		entries, err := os.ReadDir(d.path)
		ok(d.t, err)
		for _, e := range entries {
			ok(d.t, os.RemoveAll(filepath.Join(d.path, e.Name())))
		}
	case "another": // an empty file system hides it
		ok(d.t, syscall.Mount("fors", d.path, "tmpfs", 0, d.size))
	}
}

// mend ends the fault.
func (d *disk) mend() {
	d.t.Helper()
	switch d.fault {
	case "full":
		ok(d.t, os.Remove(d.filler()))
	case "read-only":
		ok(d.t, syscall.Mount("", d.path, "", syscall.MS_REMOUNT, d.size))
	case "gone":
		ok(d.t, os.Remove(d.path))
		if d.mounted {
			ok(d.t, os.Mkdir(d.path, 0o755), syscall.Mount(d.path+".away", d.path, "", syscall.MS_MOVE, ""))
		} else {
			ok(d.t, os.Rename(d.path+".away/it", d.path))
		}
	case "another":
		ok(d.t, syscall.Unmount(d.path, syscall.MNT_DETACH))
	}
	d.fault = ""
}

// spoil removes a file below the directory, truncates it, or flips a bit.
func (d *disk) spoil(r *rand.Rand) string {
	var files []string
	_ = filepath.WalkDir(d.path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && path != d.filler() {
			files = append(files, path)
		}
		return nil
	})
	if len(files) == 0 {
		return "nothing"
	}
	path := files[r.IntN(len(files))]
	text, err := os.ReadFile(path)
	ok(d.t, err)
	what := "gone"
	switch n := r.IntN(3); {
	case n == 0 || len(text) == 0:
		ok(d.t, os.Remove(path))
	case n == 1:
		what = "cut off"
		ok(d.t, os.WriteFile(path, text[:r.IntN(len(text))], 0o644))
	default:
		what = "flipped"
		text[r.IntN(len(text))] ^= 1 << r.IntN(8)
		ok(d.t, os.WriteFile(path, text, 0o644))
	}
	return what + " " + path
}

// besideDisk is a forsd with a failing disk, and all plans that it has published.
type besideDisk struct {
	*Daemon
	t      *testing.T
	r      *rand.Rand
	dir    string
	disk   *disk
	given  map[series]map[uint64]string // published tables by number
	last   map[series]uint64            // highest number published
	fabric *topology.Fabric             // healthy
	alone  bool                         // no file outside the state directory can be written either
	now    *topology.Fabric
	log    []string
}

// series identifies plans whose numbers clients compare.
type series struct {
	job  uint64 // 0 for the fabric
	base bool   // plans for base LIDs
}

func (h *besideDisk) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *besideDisk) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(h.log, "\n"))
}

func (h *besideDisk) start() {
	h.Daemon = readable(daemonIn(h.t, h.dir))
	h.manager.Finder = self{}
	h.look()
}

// look checks the published plans: no number is given twice, and none decreases.
func (h *besideDisk) look() {
	h.t.Helper()
	h.take(series{}, h.state.Plans)
	h.take(series{base: true}, h.state.Bases)
	for _, j := range h.state.Now().Jobs {
		h.take(series{job: j.ID}, j.Plans)
		h.take(series{job: j.ID, base: true}, j.Bases)
	}
}

func (h *besideDisk) take(of series, plans *published.Plans) {
	h.t.Helper()
	p := plans.Current()
	if p == nil {
		return
	}
	if h.given[of] == nil {
		h.given[of] = map[uint64]string{}
	}
	if before, known := h.given[of][p.Epoch]; known && before != string(p.Table.Bytes()) {
		h.fail("number %d of %+v is given to two plans", p.Epoch, of)
	}
	if p.Epoch < h.last[of] && !h.alone {
		h.fail("number %d of %+v is given out after %d", p.Epoch, of, h.last[of])
	}
	h.given[of][p.Epoch], h.last[of] = string(p.Table.Bytes()), p.Epoch
}

// settle lets the present fabric be planned, which no fault of the disk may prevent.
func (h *besideDisk) settle() {
	h.t.Helper()
	h.atRest(h.t, h.now)
	h.giveTurns(h.t.Context())
	h.look()
	v, e := h.state.Now().Latest, h.state.Now().Epoch
	if e == nil || h.state.Plans.Current() == nil || h.state.Plans.Current().Epoch != e.Epoch {
		h.fail("the fabric has no plan")
	}
	if match, _ := h.desk.Match(); !match {
		h.fail("at rest, and other tables are in the switches")
	}
	rows, err := view.RowsOf(e.Plan, v.Tree)
	ok(h.t, err)
	if err := verify.Plan(v.Tree, h.desk.InSwitches(), rows, nil); err != nil {
		h.fail("the plan in force: %v", err)
	}
	if w := h.warned(state.StateNotDurable); w != (h.store.Disk.PendingErr() != nil) {
		h.fail("warned: %v, and pending: %v", w, h.store.Disk.PendingErr())
	}
}

func (h *besideDisk) warned(code string) bool {
	return slices.ContainsFunc(h.health.List(time.Now()), func(w health.Warning) bool { return w.Code == code })
}

// step performs a random operation.
func (h *besideDisk) step() {
	h.t.Helper()
	switch n := h.r.IntN(11); {
	case n < 4:
		h.now = h.fabric
		for range h.r.IntN(3) {
			h.now = lacking(h.now, 4, h.r.IntN(4), h.r.IntN(4))
		}
		h.note("another fabric")
		h.settle()
	case n == 4:
		first := h.r.IntN(12)
		j, err := h.tryMake(api.JobRequest{Hosts: names(first, first+2), LeaseSeconds: 3600})
		var none *api.Error
		if errors.As(err, &none) && none.Code == api.CodeNoPlan {
			return
		}
		ok(h.t, err)
		h.note("job %d", j.Epoch)
	case n == 5:
		if jobs := h.state.Now().Jobs; len(jobs) > 0 {
			h.note("end of job %d", jobs[0].ID)
			h.store.EndJob(jobs[0], "removed")
		}
	case n == 6 && h.disk.fault == "":
		kinds := faults
		if h.alone {
			kinds = faults[:3] // the other faults leave nothing that forsd wrote
		}
		h.disk.fail(kinds[h.r.IntN(len(kinds))])
		h.note("fault: %s", h.disk.fault)
	case n == 7 && h.disk.fault != "":
		h.mend()
	case n == 8:
		h.kill()
		h.start()
		h.settle()
	case n == 9 && h.disk.fault == "":
		h.kill()
		h.note("spoilt: %s", h.disk.spoil(h.r))
		h.start()
		h.settle()
	case n == 10: // the machine restarts with a working disk
		h.kill()
		h.note("the machine is started anew, with its disk")
		h.disk.mend()
		if text, err := os.ReadFile(filepath.Join(h.disk.path, "promised.json")); err == nil && json.Valid(text) {
			promise(h.t, h.disk.path, promised(h.t, h.disk.path), fmt.Sprint("boot ", h.r.Uint64()))
		}
		if !h.alone {
			ok(h.t, os.RemoveAll(filepath.Join(h.dir, "s.numbers")))
		}
		h.start()
		h.settle()
	}
	h.look()
}

// kill ends the process abruptly.
func (h *besideDisk) kill() {
	h.note("killed, epoch %d, last %d, pending: %v", h.state.Now().EpochNumber(), h.store.Disk.Numbers.Last(), h.store.Disk.PendingErr())
	h.finish()
	ok(h.t, h.store.Close())
}

// mend ends the fault of the disk. Everything is then stored, and a killed process
// resumes from it.
func (h *besideDisk) mend() {
	h.t.Helper()
	h.note("mended: %s", h.disk.fault)
	h.disk.mend()
	h.store.LookAtDisk()
	at, rests := h.loop.atRest()
	if !rests {
		h.fail("an action is under way")
	}
	at.routine(h.t.Context(), time.Now().Add(time.Minute)) // pending state is stored again by then
	if err := h.store.Disk.PendingErr(); err != nil {
		h.fail("the disk is back, and this is pending: %v", err)
	}
	if h.warned(state.StateNotDurable) {
		h.fail("the warning stays")
	}
	before, jobs := h.state.Now().Epoch, h.state.Now().Jobs
	h.kill()
	h.start()
	e := h.state.Now().Epoch
	if before != nil && (e == nil || e.Epoch != before.Epoch || string(e.Plan.Bytes()) != string(before.Plan.Bytes())) {
		h.fail("epoch %d was stored, and after a restart %+v is in force", before.Epoch, e)
	}
	for _, j := range jobs {
		if j.Plans.Current() == nil {
			continue
		}
		if back, err := h.state.Now().Job(fmt.Sprint(j.ID)); err != nil || string(back.Plan.Bytes()) != string(j.Plan.Bytes()) {
			h.fail("job %d was stored, and after a restart: %v", j.ID, err)
		}
	}
	if n := len(h.state.Now().Jobs); n != len(jobs) {
		h.fail("%d jobs were stored, and there are %d", len(jobs), n)
	}
	h.settle()
}

// newBesideDisk returns a forsd that has settled.
func newBesideDisk(t *testing.T, seed int, alone bool) *besideDisk {
	t.Helper()
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	ok(t, os.Mkdir(state+".away", 0o755))
	h := &besideDisk{t: t, r: rand.New(rand.NewPCG(uint64(seed), 1)), dir: dir, disk: newDisk(t, state), given: map[series]map[uint64]string{}, last: map[series]uint64{}, fabric: fabric(4, 4), alone: alone}
	h.now = h.fabric
	if alone {
		ok(t, os.MkdirAll(filepath.Join(dir, "s.numbers", "x"), 0o755), os.MkdirAll(filepath.Join(dir, "lfts.dump.numbers", "x"), 0o755))
	}
	h.start()
	h.settle()
	return h
}

// TestCableOverFullDisk lets a cable fail and return while the disk is full. No plan's
// number decreases, even after a kill.
func TestCableOverFullDisk(t *testing.T) {
	for _, stored := range []bool{true, false} {
		for _, alone := range []bool{true, false} {
			if alone && !stored {
				continue // plans in force from memory are recorded nowhere
			}
			h := newBesideDisk(t, 0, alone)
			_, err := h.tryMake(api.JobRequest{Hosts: names(0, 5), LeaseSeconds: 3600})
			ok(t, err)
			h.settle()
			h.alone = false // numbers must not decrease in this case either
			h.disk.fail("full")
			for _, now := range []*topology.Fabric{lacking(h.fabric, 4, 0, 2), h.fabric} {
				h.now = now
				h.settle()
			}
			if len(h.last) != 4 {
				t.Fatalf("numbers of %d kinds of plans were given, want those of the fabric and of a job, each with plans for base LIDs", len(h.last))
			}
			if stored {
				h.mend()
			} else {
				h.kill()
				h.disk.mend()
				h.start()
				h.settle()
			}
			h.kill()
		}
	}
}

// TestDisk makes the state directory full, read-only, absent, empty or a different one,
// and damages its files, in random histories of a fabric that fails and a forsd that is
// killed. Plans and tables always follow the fabric. No number is given to two plans or
// after a higher one. When the disk works again, everything is stored.
func TestDisk(t *testing.T) {
	t.Parallel()
	cases := 50
	if os.Getenv("FORS_LONG") != "" {
		cases = 1000
	}
	for seed := range cases {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newBesideDisk(t, seed, seed%4 == 3)
			for range 14 {
				h.step()
			}
			if h.disk.fault != "" {
				h.mend()
			}
			h.kill()
		})
	}
}

// TestDamagedEpoch damages the epoch in force and the plan of a job. Their older plans
// must not be published before a plan has been verified.
func TestDamagedEpoch(t *testing.T) {
	dir, healthy := t.TempDir(), fabric(4, 4)
	d := readable(daemonIn(t, dir))
	d.atRest(t, lacking(healthy, 4, 1, 2))
	d.make(t, "a", names(0, 7))
	d.atRest(t, healthy)
	last, job := d.state.Now().Epoch.Epoch, d.job(t, "a").Epoch
	ok(t, d.store.Close())
	for _, path := range []string{fmt.Sprintf("epochs/%010d", last), fmt.Sprintf("jobs/%010d-%010d", d.job(t, "a").ID, job)} {
		path = filepath.Join(d.cfg.StateDir, path, "phases.bin")
		text, err := os.ReadFile(path)
		ok(t, err)
		text[len(text)/2] ^= 1
		ok(t, os.WriteFile(path, text, 0o644))
	}
	d = readable(daemonIn(t, dir))
	plans, _, err := backend.Jobs{Parts: &d.backend.Parts}.JobPlans("a")
	ok(t, err)
	if d.state.Plans.Current() != nil || plans.Current() != nil || d.state.Now().EpochNumber() != 0 {
		t.Error("an older plan is given out, which nobody has verified")
	}
	if d.warning(stateDamaged) == "" {
		t.Error("no warning of the damage")
	}
	d.atRest(t, healthy)
	if p := d.state.Plans.Current(); p == nil || p.Epoch <= last {
		t.Errorf("epoch %d was in force, and now %+v", last, p)
	}
	if p := d.job(t, "a").Plans.Current(); p == nil || p.Epoch <= job {
		t.Errorf("the job had plan %d, and now %+v", job, p)
	}
}

// TestBaselineLost removes the baseline of a store with an epoch, and then its copy too.
// The present fabric replaces the baseline with a warning, and is not stored until an
// operator accepts it.
func TestBaselineLost(t *testing.T) {
	dir, healthy := t.TempDir(), fabric(4, 4)
	cut := lacking(healthy, 4, 1, 2)
	d := readable(daemonIn(t, dir))
	d.atRest(t, healthy)
	base := filepath.Join(d.cfg.StateDir, "baseline.json")
	text, err := os.ReadFile(base)
	ok(t, err)
	again := func() {
		t.Helper()
		ok(t, d.store.Close())
		d = readable(daemonIn(t, dir))
		d.atRest(t, cut)
		d.giveTurns(t.Context())
	}
	ok(t, os.Remove(base))
	again()
	if d.warning(stateDamaged) == "" || d.warning(state.BaselineLost) != "" || len(d.state.Now().Latest.Down) != 1 {
		t.Error("the copy is not used, or nobody is told")
	}
	if again(); d.warning(stateDamaged) != "" {
		t.Error("the copy was not put in its place")
	}
	ok(t, os.Remove(base), os.Remove(filepath.Join(d.cfg.StateDir, "baseline.copy.json")))
	for range 2 {
		again()
		if d.warning(state.BaselineLost) == "" || len(d.state.Now().Latest.Down) != 0 {
			t.Error("the baseline is lost, and nobody is told")
		}
		if _, err := os.Stat(base); err == nil {
			t.Fatal("the baseline was replaced without a word")
		}
	}
	ok(t, os.WriteFile(base, text, 0o644))
	if again(); d.warning(state.BaselineLost) != "" || len(d.state.Now().Latest.Down) != 1 {
		t.Error("the baseline is back, and is not used")
	}
	ok(t, os.Remove(base), os.Remove(filepath.Join(d.cfg.StateDir, "baseline.copy.json")))
	again()
	ok(t, d.accept(t.Context()))
	d.drive(t, cut)
	if _, err := os.Stat(base); err != nil || d.warning(state.BaselineLost) != "" {
		t.Errorf("the fabric was accepted: %v, and the warning says %q", err, d.warning(state.BaselineLost))
	}
}
