package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/forsd/forsd/lft"
)

// TestTableFileWaits holds that the table file is written when the sweep under way has
// been routed, or somebody waits for it, and at once where there is no sweep.
func TestTableFileWaits(t *testing.T) {
	var f tableFile
	d := newDesk()
	tables := []*lft.Tables{{}, {}, {}, {}}
	wrote := make(chan int, len(tables))
	begin := func(n int, err error) {
		f.begin(tables[n], d.routes(), func() error {
			wrote <- n
			return err
		})
	}
	waits := func(n int) {
		t.Helper()
		select {
		case got := <-wrote:
			t.Errorf("file %d was written, and %d waits", got, n)
		default:
		}
	}

	begin(0, nil)
	if n := <-wrote; n != 0 {
		t.Errorf("without a sweep file %d was written", n)
	}
	if err := f.join(); err != nil || f.planned() != tables[0] {
		t.Errorf("%v, and the file holds other tables", err)
	}

	d.started()
	begin(1, nil)
	waits(1)
	d.routed()
	if n := <-wrote; n != 1 {
		t.Errorf("file %d was written when the sweep was routed", n)
	}

	d.started()
	begin(2, errors.New("disk full"))
	waits(2)
	if f.planned() != nil || f.join() == nil { // who asks does not wait for the sweep
		t.Error("what was not written counts as written")
	}
	<-wrote
	begin(3, nil)
	waits(3)
	d.ended()
	if err := f.join(); err != nil || f.planned() != tables[3] {
		t.Errorf("%v, and the file holds other tables", err)
	}
}

// TestTableFileAtTheEnd holds that a daemon does not end before the table file is
// written, and does not wait for a sweep then.
func TestTableFileAtTheEnd(t *testing.T) {
	d := newDaemon(t)
	wrote := make(chan struct{}, 1)
	d.file.begin(&lft.Tables{}, make(chan struct{}), func() error {
		wrote <- struct{}{}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ok(t, d.Run(ctx))
	if len(wrote) != 1 {
		t.Error("the daemon has ended, and the file is not written")
	}
}
