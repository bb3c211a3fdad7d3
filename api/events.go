package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"
)

// Event is something that happened.
type Event struct {
	ID   string          `json:"id"` // opaque
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// The kinds of events. KindMissed means that the subscriber has lost events (it was away
// too long, or the daemon was restarted) and must read the status.
const (
	KindEpoch   = "epoch"
	KindBase    = "base"
	KindDrain   = "drain" // see DrainEvent
	KindJob     = "job"
	KindLink    = "link"
	KindOrder   = "order" // an operator's: see Order
	KindCable   = "cable" // a decision about one: see CableEvent
	KindWarning = "warning"
	KindStart   = "start"    // forsd was started: see Start
	KindLead    = "takeover" // forsd leads, or follows another one: see Takeover
	KindMissed  = "missed"
)

// Order is the data of an event of the kind KindOrder: an order and its result. Before and
// After are the epochs in force.
type Order struct {
	What   string  `json:"what"`
	By     *Caller `json:"by"`
	Result string  `json:"result"`
	Before uint64  `json:"before"`
	After  uint64  `json:"after"`
}

// Start is the data of an event of the kind KindStart.
type Start struct {
	Version string `json:"release"`
}

// Takeover is the data of an event of the kind KindLead.
type Takeover struct {
	Leads bool   `json:"leads"`
	Why   string `json:"why,omitempty"`
	Epoch uint64 `json:"epoch"`
}

// KeepAlive is how long a stream of events may be silent: then the server writes a comment.
const KeepAlive = 15 * time.Second

// The pace of coming back to a stream that broke, and how long a stream may be
// silent.
const (
	reconnectFirst = 100 * time.Millisecond
	reconnectMost  = 5 * time.Second
	silence        = 3 * KeepAlive
)

// Watch yields the events from now on, or those after the event called last if that is not
// empty, until ctx ends or the caller stops. When the stream breaks it yields the error
// with a zero event and resumes; a caller that does not want that stops at the error. An
// event of kind KindMissed means that some are lost.
func (c *Client) Watch(ctx context.Context, last string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		pause := reconnectFirst
		for ctx.Err() == nil {
			err := c.stream(ctx, &last, func(e Event) bool {
				pause = reconnectFirst
				return yield(e, nil)
			})
			if errors.Is(err, errStopped) || ctx.Err() != nil {
				return
			}
			if !yield(Event{}, err) {
				return
			}
			select {
			case <-time.After(pause):
				pause = min(2*pause, reconnectMost)
			case <-ctx.Done():
			}
		}
	}
}

// errStopped means that the caller of Watch has stopped.
var errStopped = errors.New("stopped")

// stream reads one connection's events and keeps the latest ID in last. It
// returns why it ended.
func (c *Client) stream(ctx context.Context, last *string, yield func(Event) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("forsd at %s was silent for %v", c.addr, silence)) })
	defer quiet.Stop()
	header := http.Header{"Accept": {"text/event-stream"}}
	if *last != "" {
		header.Set("Last-Event-ID", *last)
	}
	resp, err := c.do(ctx, http.MethodGet, "/v1/events", nil, header)
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	defer resp.Body.Close()
	err = readEvents(resp.Body, func() { quiet.Reset(silence) }, func(e Event) bool {
		if e.ID != "" {
			*last = e.ID
		}
		quiet.Stop() // the caller may take its time
		defer quiet.Reset(silence)
		return e.Kind == "" || yield(e)
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, errStopped) {
		return err
	}
	return fmt.Errorf("the event stream of forsd at %s ended: %w", c.addr, err)
}

// maxEventLine bounds a line of a stream, and the data of an event, which forsd
// sends in one.
const maxEventLine = 1 << 20

// readEvents reads server-sent events until the stream ends, which it returns as
// io.EOF, or yield is false, which it returns as errStopped. Alive is called for
// every line. An ID that comes without data is yielded as an event without kind.
func readEvents(r io.Reader, alive func(), yield func(Event) bool) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 4096), maxEventLine)
	var e Event
	for lines.Scan() {
		alive()
		line := lines.Text()
		if line == "" {
			if e.Data == nil {
				e.Kind = ""
			}
			if (e.Kind != "" || e.ID != "") && !yield(e) {
				return errStopped
			}
			e = Event{}
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.ID = value
		case "event":
			e.Kind = value
		case "data":
			if len(e.Data)+len(value) >= maxEventLine {
				return bufio.ErrTooLong
			}
			if e.Data != nil {
				e.Data = append(e.Data, '\n')
			}
			e.Data = append(e.Data, value...)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.EOF
}
