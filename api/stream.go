package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
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
	at, known, gone := s.Events.resume(r.Context(), last, func(events []Event) bool { return out.send(formatAll(events)) })
	if gone {
		return nil
	}
	if !out.send(fmt.Sprintf("retry: 1000\nid: %s\n\n", s.Events.id(at))) {
		return nil
	}
	if !known && !out.send(format(s.Events.missed(at))) {
		return nil
	}
	for r.Context().Err() == nil {
		ctx, cancel := context.WithTimeout(r.Context(), keepAlive)
		events, next := s.Events.wait(ctx, at)
		cancel()
		at = next
		text := ": still here\n\n"
		if len(events) > 0 {
			text = formatAll(events)
		}
		if r.Context().Err() != nil || !s.stillMay(r, readers) || !out.send(text) {
			return nil
		}
	}
	return nil
}

// format is the event as the stream carries it. JSON has no line breaks.
func format(e Event) string {
	return fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", e.ID, e.Kind, e.Data)
}

// formatAll is events one after the other.
func formatAll(events []Event) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(format(e))
	}
	return b.String()
}

// stream is an answer that goes on.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// send writes text at once; it is false when the client is gone or does not
// read.
func (s *stream) send(text string) bool {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeWithin)) // a recorder in tests has no deadlines
	if _, err := s.w.Write([]byte(text)); err != nil {
		return false
	}
	return s.rc.Flush() == nil
}
