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

// Past serves past events: see Config.
type Past interface {
	// History returns a page of past events. The error is one of the API.
	History(ctx context.Context, q HistoryQuery) (*HistoryPage, error)
}

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

// history answers GET /v1/history.
func (s *service) history(w http.ResponseWriter, r *http.Request) error {
	q, err := historyQuery(r.URL.Query())
	if err != nil {
		return err
	}
	return writeMade(w, r, func() (any, error) { return s.Past.History(r.Context(), q) })
}

// historyQuery reads the parameters of a request.
func historyQuery(v url.Values) (q HistoryQuery, err error) {
	for name := range v {
		switch name {
		case "kind", "about", "by", "since", "until", "order", "limit", "cursor":
		default:
			return q, BadRequest("%.40s is not a parameter of the history: there are kind, about, by, since, until, order, limit and cursor", name)
		}
	}
	for _, k := range v["kind"] {
		for kind := range strings.SplitSeq(k, ",") {
			if kind = strings.TrimSpace(kind); kind != "" {
				q.Kinds = append(q.Kinds, kind)
			}
		}
	}
	if len(q.Kinds) > 32 {
		return q, BadRequest("%d kinds: want 32 at most", len(q.Kinds))
	}
	q.About, q.By, q.Cursor = v.Get("about"), v.Get("by"), v.Get("cursor")
	for name, into := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := v.Get(name); text != "" {
			if *into, err = time.Parse(time.RFC3339, text); err != nil {
				return q, BadRequest("%s=%.40s: want a time such as 2026-07-01T08:00:00Z", name, text)
			}
		}
	}
	switch order := v.Get("order"); order {
	case "", "newest":
	case "oldest":
		q.Oldest = true
	default:
		return q, BadRequest("order=%.40s: want newest or oldest", order)
	}
	if text := v.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > MostHistory {
			return q, BadRequest("limit=%.40s: want 1 to %d", text, MostHistory)
		}
	}
	return q, nil
}

// values returns the parameters of a query.
func (q *HistoryQuery) values() url.Values {
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
	return ask[HistoryPage](ctx, c, http.MethodGet, "/v1/history?"+q.values().Encode(), nil)
}
