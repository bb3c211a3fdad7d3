package published

import (
	"net/http"
	"strconv"
	"time"
)

// partSize is the length of a part of a text, in bytes.
const partSize = 64 << 10

// Text is a long answer in parts, made once for all who ask for it. The zero value is empty.
type Text struct {
	parts  [][]byte // of partSize bytes each, the last of fewer
	length int
	began  time.Time // the last part
}

// Write appends to the text. After each part it rests for as long as that took: the process has
// a processor for its own work.
func (t *Text) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		last := len(t.parts) - 1
		if last < 0 || len(t.parts[last]) == partSize {
			if last >= 0 {
				time.Sleep(time.Since(t.began))
			}
			t.began = time.Now()
			t.parts = append(t.parts, make([]byte, 0, partSize))
			continue
		}
		k := min(len(p), partSize-len(t.parts[last]))
		t.parts[last] = append(t.parts[last], p[:k]...)
		p = p[k:]
	}
	t.length += n
	return n, nil
}

// SendWithin is how long a client may take for an answer.
const SendWithin = 30 * time.Second

// Send answers with the text, which is not written to any more. The time of the client begins
// now: that in which the text was made does not count.
func (t *Text) Send(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(SendWithin)) // a recorder in tests has no deadlines
	w.Header().Set("Content-Length", strconv.Itoa(t.length))
	for _, part := range t.parts {
		if _, err := w.Write(part); err != nil {
			return // the client is gone
		}
	}
}
