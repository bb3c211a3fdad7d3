// Package history keeps what has happened, over restarts: the events of the API, in an
// SQLite database in the state directory. Nobody waits for it: events are queued, and a
// goroutine of its own stores them. What is damaged is moved aside, and what cannot be
// stored is counted, and both are warnings.
package history

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/health"
)

// The codes of the warnings of the history.
const (
	Damaged   = "history-damaged"
	NotStored = "history-not-stored"
)

// Kinds are these warnings.
func Kinds() []health.Warnable {
	return []health.Warnable{
		{Code: Damaged, Severity: health.Info, Title: "The history was damaged and begins again"},
		{Code: NotStored, Severity: health.Degraded, Title: "What happens is not kept in the history"},
	}
}

// Settings say where the history is, and how much of it is kept.
type Settings struct {
	Path     string        // of the database
	MaxAge   time.Duration // of what is kept
	MaxBytes int64         // of the database's file; its log takes some MB beside it
}

const (
	queueLength = 4096                   // events that wait for the disk
	mostInOne   = 512                    // events of one transaction
	gather      = 50 * time.Millisecond  // that the first event of a transaction waits for others
	tryAgain    = 2 * time.Second        // after what could not be stored
	lookAfter   = 10 * time.Minute       // when nothing happens, for what has become too old
	atTheEnd    = 300 * time.Millisecond // to store what is queued when forsd ends
)

// History is the events that are kept.
type History struct {
	Settings
	log    *zap.Logger
	health *health.Tracker
	run    string // of this process's events

	queue  chan noted
	lost   atomic.Uint64 // events that found the queue full
	opened chan struct{} // closed when it has been tried to open the database
	db     atomic.Pointer[database]
	trim   trimmer
}

// noted is an event, and when it was.
type noted struct {
	api.Event
	at time.Time
}

// New is a history that Run opens. Run is what the IDs of this process's events begin with.
func New(s Settings, run string, log *zap.Logger, h *health.Tracker) *History {
	return &History{Settings: s, run: run, log: log, health: h, queue: make(chan noted, queueLength), opened: make(chan struct{})}
}

// Note takes an event in, and does not wait: where too many wait already, it is lost.
func (h *History) Note(e api.Event, at time.Time) {
	select {
	case h.queue <- noted{e, at}:
	default:
		h.lost.Add(1)
	}
}

// Lost counts the events that could not be kept.
func (h *History) Lost() uint64 { return h.lost.Load() }

// Bytes is what the database's file has, 0 where there is none.
func (h *History) Bytes() int64 {
	if db := h.db.Load(); db != nil {
		return db.size()
	}
	return 0
}

// Run stores events until ctx ends, and what is queued then.
func (h *History) Run(ctx context.Context) error {
	defer h.close()
	opened := sync.OnceFunc(func() { close(h.opened) })
	var batch []noted
	for {
		done := h.store(batch)
		opened()
		if ctx.Err() != nil && (len(h.queue) == 0 || !done) {
			if db := h.db.Load(); done && db != nil && h.Lost() == 0 {
				return db.end()
			}
			return nil
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

// next waits for events, and a moment for more of them. It is empty where nothing has
// happened for long, and at the end.
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

// database is the open one. Where there is none, or another file is in its place, it is
// opened.
func (h *History) database() (*database, error) {
	db := h.db.Load()
	if db != nil && db.inPlace() {
		return db, nil
	}
	h.close()
	db, err := open(h.Settings, h.run)
	if err == nil {
		h.db.Store(db)
	}
	return db, err
}

// close closes the database, if one is open.
func (h *History) close() {
	if db := h.db.Swap(nil); db != nil {
		db.close()
	}
}

// store stores events, and removes what is too old or too much. It tells whether there is
// nothing to try again. A database that is damaged is moved aside.
func (h *History) store(batch []noted) bool {
	err := h.keep(batch)
	if damaged(err) {
		if err = h.setAside(err); err == nil {
			err = h.keep(batch)
		}
	}
	if err != nil {
		h.trouble(err)
		return false
	}
	h.stored()
	return true
}

// keep is store without care for damage. What it stored before it failed may be stored
// again.
func (h *History) keep(batch []noted) error {
	db, err := h.database()
	if err != nil {
		return err
	}
	err = db.insert(batch)
	for range trimShare { // there may be little of what can be removed
		if !full(err) {
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

// setAside moves a damaged database aside.
func (h *History) setAside(why error) error {
	h.close()
	aside, err := moveAside(h.Path)
	if err != nil {
		return errors.Join(why, err)
	}
	h.log.Error("the history is damaged and begins anew", zap.String("moved_to", aside), zap.Error(why))
	h.health.Raise(Damaged, fmt.Sprintf("%v: it was moved to %s, and another one has begun", why, aside), time.Now())
	return nil
}

// trouble warns that nothing can be stored.
func (h *History) trouble(err error) {
	text, _, _ := strings.Cut(err.Error(), "\n")
	h.health.Raise(NotStored, fmt.Sprintf("%s: %s; what happens meanwhile is kept in memory, up to %d events%s", h.Path, text, queueLength, h.lostText()), time.Now())
}

// stored takes that warning back, and tells what was lost before.
func (h *History) stored() {
	if n := h.lost.Load(); n != h.trim.told {
		h.log.Error("events are missing in the history: more came than could be stored", zap.Uint64("lost", n-h.trim.told))
		h.trim.told = n
	}
	h.health.Clear(NotStored)
}

// lostText says how many events are lost, "" for none.
func (h *History) lostText() string {
	if n := h.lost.Load(); n > 0 {
		return fmt.Sprintf(", and %d were lost", n)
	}
	return ""
}
