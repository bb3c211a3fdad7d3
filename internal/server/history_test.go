package server

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
)

// TestHistoryQuery sends each parameter by the client, and wrong ones by hand.
func TestHistoryQuery(t *testing.T) {
	at := time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC)
	for _, q := range []api.HistoryQuery{{}, {Kinds: []string{"order", "link"}, About: "Leaf007/31 & more", By: "anna", Since: at, Until: at.Add(time.Hour), Oldest: true, Limit: 7, Cursor: "a.b"}} {
		got, err := historyQuery(q.Values())
		if err != nil || !reflect.DeepEqual(got, q) {
			t.Errorf("%+v arrives as %+v (%v)", q, got, err)
		}
	}
	s := newSite(t)
	for query, text := range map[string]string{
		"since=yesterday": "want a time such as", "until=1": "want a time such as", "limit=0": "want 1 to 1000", "limit=1001": "want 1 to 1000", "limit=x": "want 1 to 1000",
		"order=up": "newest or oldest", "cable=x": "is not a parameter", "kind=" + strings.Repeat("a,", 40): "kinds: want 32",
	} {
		if w := request(Handler(s.Config, false), "GET", "/v1/history?"+query, ""); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// shelf is an archive of so many events of an earlier run, and of all that is noted.
type shelf struct {
	old   int
	noted []api.Event
	asked []string
}

func (a *shelf) Note(e api.Event, _ time.Time) { a.noted = append(a.noted, e) }

func (a *shelf) After(_ context.Context, id string, most int) (out []api.Event, found bool) {
	a.asked = append(a.asked, id)
	run, text, _ := strings.Cut(id, "-")
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil || run != "old" && run != a.run() {
		return nil, false
	}
	all := a.noted
	if run == "old" {
		for i := n + 1; i <= a.old; i++ {
			out = append(out, api.Event{ID: fmt.Sprint("old-", i), Kind: api.KindLink, Data: []byte(`"old"`)})
		}
	} else {
		all = a.noted[min(n, len(a.noted)):]
	}
	out = append(out, all...)
	return out[:min(most, len(out))], true
}

func (a *shelf) run() string { return published.NewEvents(1, started).Run() }

// TestEventsResume comes back from an earlier run, and after longer than the ring keeps.
func TestEventsResume(t *testing.T) {
	for name, c := range map[string]struct {
		last         string
		old, news    int
		link, missed int
	}{
		"earlier run":                   {"old-3", 10, 20, 27, 0},
		"end of the earlier run":        {"old-10", 10, 0, 0, 0},
		"many":                          {"old-0", 1000, 20, 1020, 0},
		"before the ring":               {"this-2", 0, 20, 18, 0},
		"in the ring":                   {"this-19", 0, 20, 1, 0},
		"nobody's":                      {"other-1", 10, 20, 0, 1},
		"from now on":                   {"", 10, 20, 0, 0},
		"more than the archive has yet": {"old-10", 10, 3, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				a := &shelf{old: c.old}
				s.Events.KeepIn(a)
				for i := range c.news {
					s.note(t, fmt.Sprint(i))
				}
				if strings.HasPrefix(name, "more than") {
					a.noted = nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				text := askStream(ctx, s, strings.Replace(c.last, "this", a.run(), 1))
				if link, missed := strings.Count(text, "event: link\n"), strings.Count(text, "event: missed\n"); link != c.link || missed != c.missed {
					t.Errorf("%d events and %d missed, want %d and %d:\n%s", link, missed, c.link, c.missed, text)
				}
			})
		})
	}
}
