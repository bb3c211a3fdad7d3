package daemon

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
)

// TestHistoryOutlastsForsd runs forsd twice. The second run has the history of the first
// one, and a client of the first run can continue with its events.
func TestHistoryOutlastsForsd(t *testing.T) {
	dir := t.TempDir()
	var last string
	for run := range 2 {
		d := daemonIn(t, dir)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		var page *api.HistoryPage
		for range 500 {
			var err error
			if page, err = d.history.History(t.Context(), api.HistoryQuery{Kinds: []string{api.KindStart}}); err == nil && len(page.Entries) == run+1 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if page == nil || len(page.Entries) != run+1 || !strings.HasPrefix(page.Entries[0].ID, d.state.Events.Run()+"-") {
			t.Fatalf("run %d: %+v", run, page)
		}
		if last != "" {
			events, found := d.history.After(t.Context(), last, 100)
			if !found || len(events) == 0 || events[0].Kind == api.KindMissed {
				t.Errorf("after %s of the first run: %v %v", last, events, found)
			}
		}
		last = page.Entries[0].ID
		stop()
		ok(t, <-ended)
	}
}

// TestHistoryBlocks blocks the database of the history from the start. When cables die,
// their plans are published before anything is stored. The events are stored later, in
// order.
func TestHistoryBlocks(t *testing.T) {
	asked, free := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(free) })
	defer release()
	healthy := fabric(4, 4)
	s := running(t, healthy, func(d *Daemon) {
		path, first := filepath.Join(d.cfg.StateDir, "history.db"), sync.OnceFunc(func() { close(asked) })
		sqlite.RegisterConnectionHook(func(_ sqlite.ExecQuerierContext, source string) error {
			if strings.Contains(source, path) {
				first()
				<-free
			}
			return nil
		})
	})
	<-asked // the answer comes after release below
	const failures = 3
	for k := range failures {
		s.sweep(lacking(healthy, 4, k, k))
		s.settles(func(_ *store.Epoch, v *view.View) bool {
			return len(v.Down) == 1 && v.Down[0].Leaf == k
		})
	}
	last := s.state.Now().EpochNumber()
	if n := s.history.Bytes(); n != 0 || last < 1+failures {
		t.Errorf("%d bytes are stored, and the last plan is number %d", n, last)
	}
	release()
	var page *api.HistoryPage
	for range 500 {
		var err error
		if page, err = s.history.History(t.Context(), api.HistoryQuery{Kinds: []string{api.KindEpoch}, Oldest: true}); err == nil && uint64(len(page.Entries)) >= last {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if page == nil || uint64(len(page.Entries)) != last || s.history.Lost() != 0 {
		t.Fatalf("of %d epochs the history has %+v, and lost %d events", last, page, s.history.Lost())
	}
	s.cancel()
	ok(t, <-s.ended)
}
