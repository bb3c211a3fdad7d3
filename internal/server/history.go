package server

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
)

// Past serves past events: see Config.
type Past interface {
	// History returns a page of past events. The error is one of the API.
	History(ctx context.Context, q api.HistoryQuery) (*api.HistoryPage, error)
}

// history answers GET /v1/history.
func (s *service) history(w http.ResponseWriter, r *http.Request) error {
	q, err := historyQuery(r.URL.Query())
	if err != nil {
		return err
	}
	return writeMade(w, r, func() (any, error) { return s.Past.History(r.Context(), q) })
}

// historyQuery reads the parameters of a request.
func historyQuery(v url.Values) (q api.HistoryQuery, err error) {
	for name := range v {
		switch name {
		case "kind", "about", "by", "since", "until", "order", "limit", "cursor":
		default:
			return q, api.BadRequest("%.40s is not a parameter of the history: there are kind, about, by, since, until, order, limit and cursor", name)
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
		return q, api.BadRequest("%d kinds: want 32 at most", len(q.Kinds))
	}
	q.About, q.By, q.Cursor = v.Get("about"), v.Get("by"), v.Get("cursor")
	for name, into := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := v.Get(name); text != "" {
			if *into, err = time.Parse(time.RFC3339, text); err != nil {
				return q, api.BadRequest("%s=%.40s: want a time such as 2026-07-01T08:00:00Z", name, text)
			}
		}
	}
	switch order := v.Get("order"); order {
	case "", "newest":
	case "oldest":
		q.Oldest = true
	default:
		return q, api.BadRequest("order=%.40s: want newest or oldest", order)
	}
	if text := v.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > api.MostHistory {
			return q, api.BadRequest("limit=%.40s: want 1 to %d", text, api.MostHistory)
		}
	}
	return q, nil
}
