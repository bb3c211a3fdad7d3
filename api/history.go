package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// HistoryQuery chooses entries of the history. What is empty chooses all.
type HistoryQuery struct {
	Kinds  []string  // of events
	About  string    // a cable by either end, such as Leaf007/31; a node, by name or GUID; the code of a warning
	By     string    // who ordered something: a user's, certificate's or token's name
	Since  time.Time // from then on
	Until  time.Time // before then
	Oldest bool      // the oldest come first
	Limit  int       // entries of a page; 0 for 100
	Cursor string    // the next page, as the one before has it
}

// HistoryPage is a page of the history.
type HistoryPage struct {
	Entries []HistoryEntry `json:"entries"`
	Next    string         `json:"next,omitempty"` // cursor of the next page; absent on the last
}

// HistoryEntry is an event that is kept.
type HistoryEntry struct {
	Event
	At    time.Time `json:"happened_at"`
	Ended time.Time `json:"ended_at,omitzero"` // of a warning that has ended, or has another text since
}

// MostHistory is how many entries a page may have.
const MostHistory = 1000

// Values returns the parameters of a query.
func (q *HistoryQuery) Values() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("kind", strings.Join(q.Kinds, ","))
	set("about", q.About)
	set("by", q.By)
	set("cursor", q.Cursor)
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			v.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	if q.Oldest {
		v.Set("order", "oldest")
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

// mostEntries bounds the entries that AllHistory reads, which are held in memory.
const mostEntries = 100_000

// AllHistory reads entries page by page, at most the given number, or all if that is 0. It
// fails if there are more than 100000, or if a page does not advance.
func (c *Client) AllHistory(ctx context.Context, q HistoryQuery, most int) ([]HistoryEntry, error) {
	all, seen := []HistoryEntry{}, map[string]bool{}
	for {
		q.Limit = MostHistory
		if most > 0 {
			q.Limit = min(q.Limit, most-len(all))
		}
		page, err := c.History(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Entries[:min(q.Limit, len(page.Entries))]...)
		switch q.Cursor = page.Next; {
		case q.Cursor == "" || most > 0 && len(all) >= most:
			return all, nil
		case seen[q.Cursor] || len(page.Entries) == 0:
			return nil, fmt.Errorf("the history of forsd at %s does not go on at %.40q: is there a forsd at that address?", c.addr, q.Cursor)
		case len(all) >= mostEntries:
			return nil, fmt.Errorf("there are more than %d entries: ask for less, by the time, the kind or the number", mostEntries)
		}
		seen[q.Cursor] = true
	}
}

// History returns a page of past events.
func (c *Client) History(ctx context.Context, q HistoryQuery) (*HistoryPage, error) {
	return ask[HistoryPage](ctx, c, http.MethodGet, "/v1/history?"+q.Values().Encode(), nil)
}
