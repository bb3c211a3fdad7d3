package server

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/forsd/forsd/api"
)

// events answers GET /v1/events with server-sent events. A client that comes
// back with Last-Event-ID gets what it missed. The first thing sent is the ID of
// the latest event without one, so that a client that saw none can come back.
func (s *service) events(w http.ResponseWriter, r *http.Request) error {
	last := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("last_event_id"))
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	out := &stream{w: w, rc: http.NewResponseController(w)}
	if r.Method == http.MethodHead {
		return nil
	}
	at, known, gone := s.Events.Resume(r.Context(), last, func(events []api.Event) bool { return out.send("", events...) })
	if gone {
		return nil
	}
	if !out.send(fmt.Sprintf("retry: 1000\nid: %s\n\n", s.Events.ID(at))) {
		return nil
	}
	if !known && !out.send("", s.Events.Missed(at)) {
		return nil
	}
	for r.Context().Err() == nil {
		ctx, cancel := context.WithTimeout(r.Context(), api.KeepAlive)
		events, next := s.Events.Wait(ctx, at)
		cancel()
		at = next
		text := ""
		if len(events) == 0 {
			text = ": still here\n\n"
		}
		if r.Context().Err() != nil || !s.stillMay(r, api.Reader) || !out.send(text, events...) {
			return nil
		}
	}
	return nil
}

// stream is an answer that goes on.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// send writes text and events at once; it is false when the client is gone or does not read.
// Nothing is put together in memory: thousands of streams may have many events to write. JSON
// has no line breaks.
func (s *stream) send(text string, events ...api.Event) bool {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeWithin)) // a recorder in tests has no deadlines
	_, err := io.WriteString(s.w, text)
	for i := 0; i < len(events) && err == nil; i++ {
		e := &events[i]
		_, err = fmt.Fprintf(s.w, "id: %s\nevent: %s\ndata: %s\n\n", e.ID, e.Kind, e.Data)
	}
	return err == nil && s.rc.Flush() == nil
}
