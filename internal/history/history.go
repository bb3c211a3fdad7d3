// Package history keeps the events of the API over restarts, in an SQLite database in the
// state directory. Events are queued and written by a separate goroutine, so that no caller
// waits for the disk. A damaged database is moved aside, events that do not fit into the
// queue are counted, and both raise warnings.
package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	lib "modernc.org/sqlite/lib"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/health"
)

// Codes of the history's warnings.
const (
	Damaged   = "history-damaged"
	NotStored = "history-not-stored"
)

// Kinds returns the history's warnings.
func Kinds() []health.Warnable {
	return []health.Warnable{
		{Code: Damaged, Severity: health.Info, Title: "The history was damaged and begins again"},
		{Code: NotStored, Severity: health.Degraded, Title: "What happens is not kept in the history"},
	}
}

// Settings are the history's path and limits.
type Settings struct {
	Path     string        // database file
	MaxAge   time.Duration // older entries are removed
	MaxBytes int64         // of the database file; its write-ahead log takes some MB more
}

const (
	queueLength = 4096                   // events waiting to be written
	mostInOne   = 512                    // events per transaction
	gather      = 50 * time.Millisecond  // how long the first event of a transaction waits for others
	tryAgain    = 2 * time.Second        // pause after a failed write
	lookAfter   = 10 * time.Minute       // interval of trimming when no events arrive
	atTheEnd    = 300 * time.Millisecond // time to collect queued events when forsd shuts down
)

// History has the stored events and the queue of new ones.
type History struct {
	Settings
	log    *zap.Logger
	health *health.Tracker
	run    string // prefix of this process's event IDs

	queue  chan noted
	lost   atomic.Uint64 // events dropped because the queue was full
	opened chan struct{} // closed after the first attempt to open the database
	db     atomic.Pointer[database]
	trim   trimmer
}

// noted is an event with its time.
type noted struct {
	api.Event
	at time.Time
}

// New returns a history that Run opens. run is the prefix of this process's event IDs.
func New(s Settings, run string, log *zap.Logger, h *health.Tracker) *History {
	return &History{Settings: s, run: run, log: log, health: h, queue: make(chan noted, queueLength), opened: make(chan struct{})}
}

// Note queues an event without waiting. If the queue is full, the event is dropped.
func (h *History) Note(e api.Event, at time.Time) {
	select {
	case h.queue <- noted{e, at}:
	default:
		h.lost.Add(1)
	}
}

// Lost returns the number of events dropped.
func (h *History) Lost() uint64 { return h.lost.Load() }

// Bytes returns the size of the database file, 0 if it is not open.
func (h *History) Bytes() int64 {
	if db := h.db.Load(); db != nil {
		if now, err := os.Stat(db.path); err == nil {
			return now.Size()
		}
	}
	return 0
}

// Run stores events until ctx ends, and then the events queued by that time.
func (h *History) Run(ctx context.Context) error {
	defer h.close()
	opened := sync.OnceFunc(func() { close(h.opened) })
	var batch []noted
	for {
		done := h.store(batch)
		opened()
		if ctx.Err() != nil && (len(h.queue) == 0 || !done) {
			db := h.db.Load()
			if !done || db == nil || h.Lost() > 0 {
				return nil
			}
			_, err := db.write.Exec("UPDATE runs SET whole = 1 WHERE run = ?", db.run) // all of its events were stored
			return err
		}
		if done {
			batch = h.next(ctx)
			continue
		}
		select {
		case <-time.After(tryAgain):
		case <-ctx.Done():
		}
	}
}

// next waits for an event and then briefly for more. It returns nothing after a long
// silence and at shutdown.
func (h *History) next(ctx context.Context) []noted {
	var batch []noted
	wait := time.NewTimer(lookAfter)
	defer wait.Stop()
	ended := ctx.Done()
	for {
		select {
		case e := <-h.queue:
			if batch = append(batch, e); len(batch) == 1 {
				wait.Reset(gather)
			}
			if len(batch) == mostInOne {
				return batch
			}
		case <-wait.C:
			return batch
		case <-ended:
			if len(h.queue) == 0 {
				return batch
			}
			ended = nil
			wait.Reset(atTheEnd)
		}
	}
}

// database returns the open database. It opens it if none is open or the file was replaced.
func (h *History) database() (*database, error) {
	db := h.db.Load()
	if db != nil {
		if now, err := os.Stat(db.path); err == nil && os.SameFile(now, db.file) {
			return db, nil
		}
	}
	h.close()
	db, err := open(h.Settings, h.run)
	if err == nil {
		if h.db.Store(db); db.former != nil {
			h.health.Resume(db.former)
		}
	}
	return db, err
}

// close closes the database if it is open.
func (h *History) close() {
	if db := h.db.Swap(nil); db != nil {
		db.close()
	}
}

// store writes events and trims. It reports false if the same batch must be tried again, and then
// warns. A damaged database is moved aside.
func (h *History) store(batch []noted) bool {
	err := h.keep(batch)
	if damaged(err) {
		if err = h.setAside(err); err == nil {
			err = h.keep(batch)
		}
	}
	lost := h.lost.Load()
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		text = fmt.Sprintf("%s: %s; new events are kept in memory, up to %d events", h.Path, text, queueLength)
		if lost > 0 {
			text += fmt.Sprintf(", and %d were lost", lost)
		}
		h.health.Raise(NotStored, text, time.Now())
		return false
	}
	if lost != h.trim.told {
		h.log.Error("events are missing in the history: more came than could be stored", zap.Uint64("lost", lost-h.trim.told))
		h.trim.told = lost
	}
	h.health.Clear(NotStored)
	return true
}

// keep is store without handling of damage. After an error the same events can be stored
// again.
func (h *History) keep(batch []noted) error {
	db, err := h.database()
	if err != nil {
		return err
	}
	err = db.insert(batch)
	for range trimShare { // trimming may free too little at first
		if failure(err) != lib.SQLITE_FULL { // the disk is full, or the size limit is reached
			break
		}
		if err = h.trim.trim(db, h.Settings, time.Now(), true); err == nil {
			err = db.insert(batch)
		}
	}
	if err != nil {
		return err
	}
	return h.trim.trim(db, h.Settings, time.Now(), false)
}

// setAside moves a damaged database aside and warns.
func (h *History) setAside(why error) error {
	h.close()
	aside, err := moveAside(h.Path)
	if err != nil {
		return errors.Join(why, err)
	}
	h.log.Error("the history is damaged and begins again", zap.String("moved_to", aside), zap.Error(why))
	h.health.Raise(Damaged, fmt.Sprintf("%v: it was moved to %s, and another one has begun", why, aside), time.Now())
	return nil
}

// trimmer removes entries that are too old or exceed the size limit.
type trimmer struct {
	next time.Time // when to look for old entries again
	told uint64    // dropped events already logged
}

// The pace of trimming.
const (
	trimAfter = 2000 // entries stored
	trimAtOne = 2000 // entries removed per transaction
	trimShare = 10   // a tenth of the entries is removed when the file is too large
)

// trim removes entries that are too old, and the oldest tenth if the file is too large, so
// that the latter is rare. full forces the latter.
func (t *trimmer) trim(db *database, s Settings, now time.Time, full bool) error {
	if !full && db.pending < trimAfter && now.Before(t.next) {
		return nil
	}
	t.next, db.pending = now.Add(lookAfter), 0
	var least, most, used, size, unused int64
	if err := db.write.QueryRow("SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM entries").Scan(&least, &most); err != nil {
		return err
	}
	for pragma, into := range map[string]*int64{"page_count": &used, "page_size": &size, "freelist_count": &unused} {
		if err := db.write.QueryRow("PRAGMA " + pragma).Scan(into); err != nil {
			return err
		}
	}
	below := least
	if full || (used-unused)*size > s.MaxBytes-s.MaxBytes/trimShare {
		below = least + (most-least)/trimShare + 1
	}
	var young int64 // IDs follow time unless the clock was set
	err := db.write.QueryRow("SELECT id FROM entries WHERE at >= ? ORDER BY id LIMIT 1", now.Add(-s.MaxAge).UnixMicro()).Scan(&young)
	if errors.Is(err, sql.ErrNoRows) {
		young, err = most+1, nil
	}
	if err != nil {
		return err
	}
	return t.remove(db, least, max(below, young))
}

// remove removes the entries with IDs from from up to below, exclusive.
func (t *trimmer) remove(db *database, from, below int64) error {
	for at := from; at < below; at += trimAtOne {
		if err := db.do(func(tx *sql.Tx) error {
			_, err := tx.Exec("DELETE FROM entries WHERE id < ?", min(at+trimAtOne, below))
			return err
		}); err != nil {
			return err
		}
	}
	if from >= below {
		return nil
	}
	return db.do(func(tx *sql.Tx) error {
		if _, err := tx.Exec("DELETE FROM subjects WHERE entry < ?", below); err != nil {
			return err
		}
		// A run stays while it has entries.
		_, err := tx.Exec("DELETE FROM runs WHERE first < (SELECT max(first) FROM runs WHERE first < ?)", below)
		return err
	})
}
