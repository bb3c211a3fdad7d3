// Package published holds the plans in force and the latest events, which clients read and wait
// for.
package published

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
)

// Plan is a plan in force.
type Plan struct {
	Epoch uint64
	At    time.Time
	Table *phasetable.View

	document []byte // the answer of /v1/plan
	onBase   func() bool

	csv *csvForm
}

// csvForm is the plan as phases.csv, which plans that are the same share.
type csvForm struct {
	making  sync.Mutex // one makes it, for all who ask for it
	text    atomic.Pointer[Text]
	readers atomic.Int32 // are sent it
	past    atomic.Bool  // the plan is no longer in force: it is not kept
}

// mostInCSV is how many entries a plan may have that is written out as text.
const mostInCSV = 1 << 24

// NewPlan makes a plan in force of its table and of its report, of which plan.json is
// made, one JSON object. The epoch is the table's.
func NewPlan(table *phasetable.View, report any, at time.Time) (*Plan, error) {
	plan, err := json.Marshal(report)
	if err != nil {
		return nil, fmt.Errorf("publish epoch %d: plan.json: %w", table.Epoch(), err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(plan, &fields); err != nil {
		return nil, fmt.Errorf("publish epoch %d: plan.json: %w", table.Epoch(), err)
	}
	if fields == nil {
		return nil, fmt.Errorf("publish epoch %d: plan.json is null: want an object", table.Epoch())
	}
	p := &Plan{Epoch: table.Epoch(), At: at, Table: table, onBase: sync.OnceValue(table.ToBaseLIDs), csv: &csvForm{}}
	p.document, err = planDocument(p.Epoch, at, plan)
	return p, err
}

// planDocument is plan.json with the epoch and its time in front.
func planDocument(epoch uint64, at time.Time, plan json.RawMessage) ([]byte, error) {
	head, err := json.Marshal(struct {
		Epoch       uint64    `json:"epoch"`
		PublishedAt time.Time `json:"published_at"`
	}{epoch, at})
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := json.Compact(&body, plan); err != nil {
		return nil, err
	}
	if body.Len() == len("{}") {
		return append(head, '\n'), nil
	}
	head[len(head)-1] = ','
	return append(append(head, body.Bytes()[1:]...), '\n'), nil
}

// Document is plan.json with the epoch and its time: the answer of /v1/plan.
func (p *Plan) Document() []byte { return p.document }

// OnBaseLIDs reports whether the plan only uses base LIDs.
func (p *Plan) OnBaseLIDs() bool { return p.onBase() }

// SendCSV answers with the plan as phases.csv. That is made when it is first asked for, and kept
// while the plan is in force or clients are sent it.
func (p *Plan) SendCSV(w http.ResponseWriter) error {
	form := p.csv
	form.readers.Add(1)
	defer func() {
		if form.readers.Add(-1) == 0 && form.past.Load() {
			form.text.Store(nil)
		}
	}()
	text, err := form.of(p.Table)
	if err != nil {
		return err
	}
	text.Send(w)
	return nil
}

func (f *csvForm) of(plan *phasetable.View) (*Text, error) {
	f.making.Lock()
	defer f.making.Unlock()
	if kept := f.text.Load(); kept != nil {
		return kept, nil
	}
	if n := plan.Servers(); n*plan.Phases() > mostInCSV {
		return nil, api.Refused("the plan of %d servers and %d phases is too long for CSV: ask for the binary table", n, plan.Phases())
	}
	text := &Text{}
	if err := phasetable.WriteCSV(text, plan.Table()); err != nil {
		return nil, err
	}
	f.text.Store(text)
	return text, nil
}

// leave marks the plan as no longer in force.
func (f *csvForm) leave() {
	if f.past.Store(true); f.readers.Load() == 0 {
		f.text.Store(nil)
	}
}

// Plans holds the plan in force and wakes those who wait for the next. Its zero
// value holds none.
type Plans struct {
	// Stored reads the plan of an epoch that is stored elsewhere; may be nil.
	Stored func(epoch uint64) (*phasetable.View, error)

	awaited
	current *Plan
	recent  []*Plan // those before, the latest last
	ended   bool    // there will be no other plan
}

// ErrEnded means that the job has ended and will not have another plan.
var ErrEnded = api.NotFound("the job has ended: it was removed, or its lease is over")

// Publish puts p in force.
func (s *Plans) Publish(p *Plan) { s.set(p, false) }

// Withdraw takes the plan out of force until there is another.
func (s *Plans) Withdraw() { s.set(nil, false) }

// End takes the plan out of force for good, and wakes those who wait for another.
func (s *Plans) End() { s.set(nil, true) }

func (s *Plans) set(p *Plan, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.current.csv.leave()
	}
	for _, former := range s.recent { // after a cable has come back, for one
		if p != nil && phasetable.Same(p.Table, former.Table) {
			p.csv = former.csv
			p.csv.past.Store(false)
		}
	}
	if s.current != nil && !ended {
		s.recent = keepRecent(append(s.recent, s.current))
	} else {
		s.recent = nil
	}
	s.current, s.ended = p, ended
	s.announce()
}

// Over reports whether End was called.
func (s *Plans) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// At most so many plans before the one in force are kept, and tables of so many bytes.
const (
	mostRecent      = 4
	mostRecentBytes = 16 << 20
)

func keepRecent(plans []*Plan) []*Plan {
	kept, bytes := len(plans), 0
	for kept > 0 && len(plans)-kept < mostRecent && bytes+len(plans[kept-1].Table.Bytes()) <= mostRecentBytes {
		kept--
		bytes += len(plans[kept].Table.Bytes())
	}
	return append([]*Plan(nil), plans[kept:]...)
}

// Exactly returns the plan of an epoch if it is in force or one of the few before, so that
// processes started one after the other can have the same plan; nil otherwise.
func (s *Plans) Exactly(epoch uint64) *Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range append([]*Plan{s.current}, s.recent...) {
		if p != nil && p.Epoch == epoch {
			return p
		}
	}
	return nil
}

// Current returns the plan in force, nil before the first.
func (s *Plans) Current() *Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Wait returns the plan in force as soon as there is one that done accepts. When
// ctx ends first, it returns the plan in force then, nil without one, and the
// context's error. After End it returns an error at once.
func (s *Plans) Wait(ctx context.Context, done func(*Plan) bool) (now *Plan, err error) {
	ended := false
	err = s.await(ctx, func() bool {
		now = s.current
		found := now != nil && done(now)
		ended = s.ended && !found
		return found || ended
	})
	if ended {
		return nil, ErrEnded
	}
	return now, err
}

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
