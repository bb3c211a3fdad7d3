package daemon

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
)

// TestHistoryOutlastsForsd runs forsd twice: the second one has what the first one did, and
// its events go on where a client of the first one left off.
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
		if page == nil || len(page.Entries) != run+1 || !strings.HasPrefix(page.Entries[0].ID, d.board.Events.Run()+"-") {
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
