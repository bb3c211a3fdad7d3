package published

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
)

// Archive keeps events for longer than the ring does, and over restarts.
type Archive interface {
	// Note takes in an event of this run. It does not wait.
	Note(e api.Event, at time.Time)
	// After lists events that followed the one called id, ascending, most of them or
	// fewer, with one of KindMissed where some are lost. It is false where the archive does
	// not know what followed.
	After(ctx context.Context, id string, most int) ([]api.Event, bool)
}

// Events keeps the latest events in a ring and wakes those who wait for more.
// Subscribers hold nothing here but their place, so a slow one costs nothing.
type Events struct {
	run     string  // tells the IDs of one run of the daemon from another's
	fabric  string  // its name, in the data of each event; "" for none
	archive Archive // may be nil

	awaited
	ring []api.Event // event n is at n mod len
	last uint64      // number of the latest event; they count from 1
}

// NewEvents returns a ring of the latest size events. Started tells this run's
// event IDs from those of an earlier one.
func NewEvents(size int, started time.Time) *Events {
	return &Events{run: strconv.FormatInt(started.UnixNano(), 36), ring: make([]api.Event, size)}
}

// Run returns what the IDs of this run begin with.
func (s *Events) Run() string { return s.run }

// KeepIn has events kept in an archive. It comes before the first of them.
func (s *Events) KeepIn(a Archive) { s.archive = a }

// Name puts the fabric's name into the data of each event. It comes before the first of them.
func (s *Events) Name(fabric string) { s.fabric = fabric }

// Publish appends an event; data is put into JSON, which is an object with a field or more.
func (s *Events) Publish(kind string, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("publish event %s: %w", kind, err)
	}
	if s.fabric != "" {
		raw = fmt.Appendf(nil, `{"fabric":%q,%s`, s.fabric, raw[1:])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	e := api.Event{ID: s.ID(s.last), Kind: kind, Data: raw}
	s.ring[s.last%uint64(len(s.ring))] = e
	if s.archive != nil {
		s.archive.Note(e, time.Now())
	}
	s.announce()
	return nil
}

// ID names the event with number n; number 0 is before the first.
func (s *Events) ID(n uint64) string { return s.run + "-" + strconv.FormatUint(n, 10) }

// after returns the number that the ID last stands for, or that of the latest
// event where last is empty. It is false, and again the latest, when last is not
// an ID of this run.
func (s *Events) after(last string) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last == "" {
		return s.last, true
	}
	run, number, _ := strings.Cut(last, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || run != s.run || n > s.last {
		return s.last, false
	}
	return n, true
}

// atOnce is how many events are read of the archive at a time.
const atOnce = 256

// Resume continues after the event called last: events that have left the ring are sent
// from the archive. It returns the number to continue from, and whether nothing was lost up
// to there; gone means that the client has left.
func (s *Events) Resume(ctx context.Context, last string, send func([]api.Event) bool) (at uint64, known, gone bool) {
	for s.archive != nil && last != "" && !s.inRing(last) {
		events, found := s.archive.After(ctx, last, atOnce)
		if run, _, _ := strings.Cut(last, "-"); found && len(events) == 0 && run != s.run {
			return 0, true, false // nothing has followed before this run
		}
		if len(events) == 0 {
			break
		}
		if !send(events) {
			return 0, false, true
		}
		last = events[len(events)-1].ID
	}
	at, known = s.after(last)
	return at, known, false
}

// inRing reports whether the ring has the successors of an event.
func (s *Events) inRing(id string) bool {
	n, known := s.after(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return known && s.last-n <= uint64(len(s.ring))
}

// Wait returns the events after number n, at least one, and the number of the
// last of them. Where the ring has overtaken n they begin with one of kind
// KindMissed. When ctx ends first it returns none.
func (s *Events) Wait(ctx context.Context, n uint64) (events []api.Event, last uint64) {
	last = n
	_ = s.await(ctx, func() bool {
		if n < s.last {
			events, last = s.since(n), s.last
		}
		return n < s.last
	})
	return events, last
}

// since copies the events after number n that the ring still has.
func (s *Events) since(n uint64) []api.Event {
	var out []api.Event
	size := uint64(len(s.ring))
	if s.last-n > size {
		n = s.last - size
		out = append(out, s.Missed(n))
	}
	for n++; n <= s.last; n++ {
		out = append(out, s.ring[n%size])
	}
	return out
}

// Missed returns the event that stands for lost ones, up to number n. It has the ID of the
// last of them, so that a client that resumes with it gets the following ones.
func (s *Events) Missed(n uint64) api.Event {
	return api.Event{ID: s.ID(n), Kind: api.KindMissed, Data: json.RawMessage("{}")}
}
