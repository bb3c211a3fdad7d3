package desk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/delivery"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/topology"
)

// some returns tables that differ for each n.
func some(n uint8) *lft.Tables {
	return &lft.Tables{Switches: []lft.Table{{GUID: 1, Out: []uint8{lft.NoPath, n}}}}
}

// newDesk returns a desk that sends wrote the tables that it has written to the file, or
// nil if result returns an error.
func newDesk(t *testing.T, wrote chan *lft.Tables, result func() error) *Desk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lfts.dump")
	d := Open(path, path+".root", false, zap.NewNop())
	d.replace = func(path string, write func(io.Writer) error) (bool, error) {
		if err := result(); err != nil {
			wrote <- nil
			return false, err
		}
		changed, err := opensm.WriteTables(path, write)
		f, _ := os.ReadFile(path)
		tables, _ := lft.ReadBytes(f)
		wrote <- tables
		return changed, err
	}
	return d
}

func well() error { return nil }

func deliver(t *testing.T, d *Desk, id string, tables *lft.Tables) bool {
	t.Helper()
	changed, err := d.Deliver(id, &topology.Fabric{}, tables)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// TestDeskServes checks that a sweep which asks for tables too early gets them as soon as
// they exist.
func TestDeskServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := some(1), some(2)
		d := newDesk(t, make(chan *lft.Tables, 9), well)
		deliver(t, d, "A", a)
		type answer struct {
			tables *lft.Tables
			err    error
		}
		asked := make(chan answer)
		ask := func(ctx context.Context, fabric string) {
			go func() {
				got, err := d.Serve(ctx, fabric)
				asked <- answer{got, err}
			}()
			synctest.Wait()
		}
		d.Tell(delivery.Connected{})
		d.Tell(delivery.SweepStarted{})
		ask(t.Context(), "A")
		if got := <-asked; got.tables != a || got.err != nil {
			t.Errorf("tables that are there: %+v", got)
		}
		ask(t.Context(), "B")
		deliver(t, d, "C", some(3))
		synctest.Wait()
		deliver(t, d, "B", b)
		if got := <-asked; got.tables != b || got.err != nil {
			t.Errorf("tables that come: %+v", got)
		}
		ask(t.Context(), "D")
		d.Tell(delivery.Decline{Fabric: "D", Why: "it is not a tree"})
		if got := <-asked; got.err == nil {
			t.Error("a fabric without tables got some")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ask(ctx, "E")
		late := errors.New("the deadline")
		cancel(late)
		if got := <-asked; !errors.Is(got.err, late) {
			t.Errorf("late: %+v", got)
		}
		if ask(ctx, "B"); !errors.Is((<-asked).err, late) {
			t.Error("tables are given after the deadline")
		}
		limited, cancelLimited := context.WithTimeout(t.Context(), time.Second)
		defer cancelLimited()
		start := time.Now()
		ask(limited, "E")
		if got := <-asked; !errors.Is(got.err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %v: %+v", time.Since(start), got)
		}
		d.Tell(delivery.Routed{})
		if err := d.Written(); err != nil {
			t.Error(err)
		}
	})
}

// TestFileWaits checks that the table file is written when the current sweep has been
// routed or a caller waits for the file, or immediately if no sweep is under way. The
// plugin gets the tables without waiting for the file.
func TestFileWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failure error
		wrote := make(chan *lft.Tables, 9)
		d := newDesk(t, wrote, func() error { return failure })
		d.Tell(delivery.Connected{})
		written := func(what string, n uint8) {
			t.Helper()
			synctest.Wait()
			select {
			case got := <-wrote:
				if n == 0 || got == nil || got.Switches[0].Out[1] != n {
					t.Errorf("%s: the file was written: %+v", what, got)
				}
			default:
				if n != 0 {
					t.Errorf("%s: the file was not written", what)
				}
			}
		}
		if !deliver(t, d, "A", some(1)) {
			t.Error("the first tables are not new")
		}
		written("the first tables", 1)
		deliver(t, d, "B", some(2))
		written("without a sweep", 2)
		d.Tell(delivery.SweepStarted{})
		deliver(t, d, "C", some(3))
		written("in a sweep", 0)
		d.Tell(delivery.Routed{})
		written("routed", 3)
		d.Tell(delivery.SweepStarted{})
		deliver(t, d, "D", some(4))
		written("in another sweep", 0)
		time.Sleep(delivery.FileWithin)
		written("in time", 4)
		failure = errors.New("the disk is full")
		deliver(t, d, "E", some(5))
		if got, err := d.Serve(t.Context(), "E"); err != nil || got.Switches[0].Out[1] != 5 {
			t.Errorf("the plugin waits for the file: %v", err)
		}
		if err := d.Written(); err == nil || err.Error() != failure.Error() {
			t.Errorf("a file that was not written: %v", err)
		}
		if got := <-wrote; got != nil {
			t.Error("it was written all the same")
		}
		failure = nil
		if deliver(t, d, "E", some(5)) {
			t.Error("the same tables are new")
		}
		if err := d.Written(); err != nil {
			t.Error(err)
		}
		written("again", 5)
	})
}

// TestFileFails delivers tables without the plugin when the file cannot be written. The
// error reports the cause, and the old content of the file counts as possibly loaded.
func TestFileFails(t *testing.T) {
	failure := errors.New("the disk is full")
	result := func() error { return failure }
	first := newDesk(t, make(chan *lft.Tables, 9), well)
	deliver(t, first, "before", some(7))
	d := Open(first.path, first.root, false, zap.NewNop()) // a restarted forsd
	d.replace = func(path string, write func(io.Writer) error) (bool, error) {
		if err := result(); err != nil {
			return false, err
		}
		return opensm.WriteTables(path, write)
	}
	text := ""
	if _, err := d.Deliver("A", &topology.Fabric{}, some(1)); err == nil || err.Error() != failure.Error() {
		t.Errorf("the file is not written: %v", err)
	}
	for _, p := range d.Possible() {
		if p != nil {
			text += fmt.Sprint(p.Switches[0].Out[1], " ")
		}
	}
	if text != "1 7 " {
		t.Errorf("the switches may hold %s", text)
	}
	if by := d.Load(); by != delivery.SweepAlone {
		t.Errorf("loaded by %v", by)
	}
	if err := d.Written(); err == nil {
		t.Error("no error says that the file is not written")
	}
	failure = nil
	if !deliver(t, d, "A", some(1)) {
		t.Error("the file has changed")
	}
	if d.Tell(delivery.Reading{}); d.InSwitches() != nil {
		t.Error("nothing was read back")
	}
	d.Read(some(1), true)
	if match, at := d.Match(); !match || at.IsZero() || len(d.Possible()) != 1 {
		t.Errorf("read back: %v, %v, %d tables possible", match, at, len(d.Possible()))
	}
	d.Tell(delivery.Changing{})
	if match, _ := d.Match(); match {
		t.Error("tables match a fabric that they were not planned for")
	}
	d.Tell(delivery.Forget{})
	if d.InSwitches() != nil {
		t.Error("forgotten tables are known")
	}
}

// TestSweeps checks which sweep loads the tables.
func TestSweeps(t *testing.T) {
	d := newDesk(t, make(chan *lft.Tables, 9), well)
	d.Tell(delivery.Connected{})
	deliver(t, d, "A", some(1))
	if by := d.Load(); by != delivery.NextSweep {
		t.Errorf("without a sweep by %v", by)
	}
	d.Tell(delivery.SweepStarted{})
	if by := d.Load(); by != delivery.ThisSweep {
		t.Errorf("in a sweep by %v", by)
	}
	if _, err := d.Serve(t.Context(), "A"); err != nil {
		t.Fatal(err)
	}
	d.Tell(delivery.Routed{})
	if !d.SweepEnded() {
		t.Error("the sweep does not count")
	}
	d.Tell(delivery.SweepStarted{})
	d.Tell(delivery.Missed{})
	if by := d.Load(); by != delivery.NextSweep {
		t.Errorf("by %v, and the sweep did without", by)
	}
	if d.SweepEnded() {
		t.Error("it counts, and another is to come")
	}
	d.Tell(delivery.Disconnected{})
	if by := d.Load(); by != delivery.SweepAlone {
		t.Errorf("without the plugin by %v", by)
	}
}

// TestFileTooLarge checks that a file too large for OpenSM is refused with advice. The
// plugin gets such tables nevertheless.
func TestFileTooLarge(t *testing.T) {
	huge := &lft.Tables{}
	for g := range 450 { // switches that share their entries
		huge.Switches = append(huge.Switches, lft.Table{GUID: ib.GUID(g + 1)})
	}
	out := make([]uint8, ib.MaxUnicastLID)
	for i := range huge.Switches {
		huge.Switches[i].Out = out
	}
	wrote := make(chan *lft.Tables, 9)
	d := newDesk(t, wrote, well)
	if _, err := d.Deliver("huge", &topology.Fabric{}, huge); err == nil || !strings.Contains(err.Error(), "plugin") {
		t.Errorf("by a file: %v", err)
	}
	d.Tell(delivery.Connected{})
	if _, err := d.Deliver("huge", &topology.Fabric{}, huge); err != nil {
		t.Errorf("by the plugin: %v", err)
	}
	if got, err := d.Serve(t.Context(), "huge"); err != nil || got != huge {
		t.Errorf("the plugin gets %v: %v", got != nil, err)
	}
	if err := d.Written(); err == nil || !strings.Contains(err.Error(), "plugin") {
		t.Errorf("a file for OpenSM without its plugin: %v", err)
	}
}
