package daemon

import (
	"errors"
	"io"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
)

// tableFile is the table file, written beside other work where OpenSM's plugin has
// the tables already. It is used by one action at a time.
type tableFile struct {
	holds *lft.Tables   // what it holds for sure, nil where that is not known
	next  *lft.Tables   // what it is being made to hold
	old   *lft.Tables   // what it held before
	hurry chan struct{} // closed when somebody waits for the writing; nil when it is so
	done  chan struct{} // closed when the writing is over; nil before the first
	err   error         // of the writing, to be read once done is closed
}

// fileWithin is how long the table file waits for a sweep to be routed.
const fileWithin = time.Second

// begin has tables written once a sweep has been routed, so that the writing does not
// keep OpenSM from its work: nil is for none, and who waits for it comes first.
func (f *tableFile) begin(t *lft.Tables, routed <-chan struct{}, write func() error) {
	_ = f.join() // whatever came of it, this replaces it
	f.next, f.old, f.holds, f.hurry, f.done = t, f.holds, nil, make(chan struct{}), make(chan struct{})
	go func(hurry, done chan struct{}) {
		defer close(done)
		if routed != nil {
			late := time.NewTimer(fileWithin)
			defer late.Stop()
			select {
			case <-routed:
			case <-hurry:
			case <-late.C:
			}
		}
		f.err = write()
	}(f.hurry, f.done)
}

// join waits for the writing under way, if there is one, and says how the last one
// went. Where it failed, the file may hold the old tables still.
func (f *tableFile) join() error {
	if f.done == nil {
		return nil
	}
	if f.hurry != nil {
		close(f.hurry)
		f.hurry = nil
	}
	<-f.done
	if f.err == nil {
		f.holds = f.next
	}
	return f.err
}

// planned are the tables that the file holds, or is being made to hold; nil where
// that is not known.
func (f *tableFile) planned() *lft.Tables {
	if f.holds == nil && f.done != nil {
		if err := f.join(); err != nil {
			return nil
		}
	}
	return f.holds
}

// writeFile replaces the table file by the tables of a view, and tells whether that
// changed a byte of it.
func (d *Daemon) writeFile(v *view, t *lft.Tables) (changed bool, err error) {
	changed, err = opensm.WriteTables(d.cfg.OpenSM.LFTsFile, func(w io.Writer) error {
		if d.cfg.OpenSM.TableComments {
			return t.Write(w, lft.OwnersOf(v.tree.Fabric))
		}
		return t.Write(w, nil)
	})
	return changed, err
}

// writeTables brings the table file up to date, and lays the tables out for OpenSM's
// plugin. Where the plugin leads, it has them at once, and the file follows when the
// sweep under way has been routed; see fileWritten.
func (d *Daemon) writeTables(v *view, t *lft.Tables) (changed bool, err error) {
	held := d.file.planned()
	if d.pluginLeads() && held != nil {
		changed = lft.Changes(held, t).Blocks > 0
		if changed {
			d.noteWritten(t)
		}
		d.desk.offer(v.id, t)
		if changed || d.cfg.OpenSM.TableComments {
			d.file.begin(t, d.desk.routes(), func() error {
				_, err := d.writeFile(v, t)
				return err
			})
		}
		return changed, nil
	}
	changed, err = d.writeFile(v, t)
	if changed || err != nil { // an error may come after the rename
		d.noteWritten(t)
	}
	d.file = tableFile{}
	if err != nil {
		return false, err
	}
	d.file.holds = t
	d.desk.offer(v.id, t)
	return changed, nil
}

// fileWritten waits until the table file is written. Where that failed, OpenSM may
// load the tables before: they count among those that switches may hold.
func (d *Daemon) fileWritten() error {
	err := d.file.join()
	if err == nil {
		return nil
	}
	if d.file.old != nil {
		d.noteWritten(d.file.old)
	}
	return errors.Join(errors.New("OpenSM has the tables, but the file that it loads where forsd does not answer has not"), err)
}
