package api

import (
	"bufio"
	"errors"
	"strings"
	"testing"
)

// TestEventsWithoutEnd reads lines and events that are too long to be forsd's.
func TestEventsWithoutEnd(t *testing.T) {
	for what, text := range map[string]string{
		"a line":     strings.Repeat("x", 2*maxEventLine),
		"many lines": "id: a-1\n" + strings.Repeat("data: 0123456789\n", maxEventLine/10),
	} {
		err := readEvents(strings.NewReader(text+"\n\n"), func() {}, func(e Event) bool {
			t.Errorf("%s: event %s with %d bytes", what, e.ID, len(e.Data))
			return true
		})
		if !errors.Is(err, bufio.ErrTooLong) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add("retry: 1000\nid: a-1\n\n: still here\n\nid: a-2\nevent: link\ndata: {}\n\n")
	f.Add("event: x\n\ndata:\n\nid\n\ndata: a\ndata: b\nevent: y\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := 0
		err := readEvents(strings.NewReader(text), func() { lines++ }, func(e Event) bool {
			if e.ID == "" && e.Kind == "" || e.Kind != "" && e.Data == nil {
				t.Errorf("an event of nothing: %+v", e)
			}
			if strings.ContainsAny(e.ID+e.Kind, "\n") {
				t.Errorf("a line break in %+v", e)
			}
			return true
		})
		if err == nil {
			t.Error("the end is no error")
		}
		if most := strings.Count(text, "\n") + 1; lines > most {
			t.Errorf("%d lines of %d", lines, most)
		}
	})
}
