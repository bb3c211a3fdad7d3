package cables

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/topology"
)

// limits keep the reading of counters from delaying urgent requests: a switch answers one
// datagram at a time.
var limits = umad.Options{Window: 2, PerNode: 2}

// patience is the time limit for reading all counters of a switch.
const patience = 10 * time.Second

// pause is the interval between checks for switches to read.
const pause = 500 * time.Millisecond

// Switch is a switch whose counters are read.
type Switch struct {
	GUID  ib.GUID
	Name  string
	LID   ib.LID
	Ports []uint8
}

// Round is the result of a round.
type Round struct {
	Began, Ended time.Time
	Busy         time.Duration         // part of the round spent on reading
	Asked        map[ib.GUID]time.Time // when each switch was asked
	Ports        map[ib.End]umad.PortCounters
	Failed       map[ib.GUID]error // why switches were not read
	Err          error             // why no switch was read
}

// Forget drops the answers of switches that were asked within a period.
func (r *Round) Forget(from, until time.Time) {
	maps.DeleteFunc(r.Ports, func(e ib.End, _ umad.PortCounters) bool {
		asked, known := r.Asked[e.GUID]
		return known && !asked.Before(from) && !asked.After(until)
	})
}

// counting reads counters through a local port.
type counting interface {
	Read(ctx context.Context, lid ib.LID, ports []uint8) (counters []umad.PortCounters, failed, err error)
	Close() error
}

// Reader reads counters in rounds: one switch after the other, spread over the time of a round,
// with few outstanding datagrams. It does not reset counters.
type Reader struct {
	Every time.Duration // of rounds
	Log   *zap.Logger
	// Want returns the switches to read in the next round, if any.
	Want func() []Switch
	// Told receives the readings of a round.
	Told func(context.Context, Round)

	open    func() (counting, error)
	port    counting // nil unless open
	failing map[ib.GUID]string
	trouble string // why nothing was read in the last round
}

// NewReader returns a reader that uses a local port, as named for opensm.Switches.Port, in the
// current fabric when it is opened.
func NewReader(port string, fabric func() *topology.Fabric) *Reader {
	return &Reader{failing: map[ib.GUID]string{}, open: func() (counting, error) {
		p, err := opensm.PickPort(port, fabric())
		if err != nil {
			return nil, err
		}
		c, err := umad.OpenCounting(p, limits)
		if err != nil {
			return nil, err // not a counting that holds a nil pointer
		}
		return c, nil
	}}
}

// Run reads rounds until ctx ends.
func (r *Reader) Run(ctx context.Context) error {
	defer r.close()
	for {
		want := r.Want()
		if len(want) == 0 {
			if !wait(ctx, pause) {
				return nil
			}
			continue
		}
		round, ended := r.round(ctx, want)
		if ended {
			return nil
		}
		r.Told(ctx, round)
	}
}

// round reads a round, which takes the time set for rounds. It reports whether ctx has ended.
func (r *Reader) round(ctx context.Context, want []Switch) (round Round, ended bool) {
	round = Round{Began: time.Now(), Asked: map[ib.GUID]time.Time{}, Ports: map[ib.End]umad.PortCounters{}, Failed: map[ib.GUID]error{}}
	for i := range want {
		began := time.Now()
		if round.Err == nil {
			round.Err = r.read(ctx, &want[i], &round)
		}
		round.Busy += time.Since(began)
		due := round.Began.Add(r.Every * time.Duration(i+1) / time.Duration(len(want)))
		if !wait(ctx, time.Until(due)) {
			return round, true
		}
	}
	round.Ended = time.Now()
	r.note(want, &round)
	return round, false
}

// read reads a switch. The error is an error of the local port.
func (r *Reader) read(ctx context.Context, s *Switch, round *Round) error {
	if r.port == nil {
		port, err := r.open()
		if err != nil {
			return err
		}
		r.port = port
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	round.Asked[s.GUID] = time.Now()
	counters, failed, err := r.port.Read(limited, s.LID, s.Ports)
	switch {
	case err != nil && limited.Err() == nil:
		r.close() // the next round opens it again
		return err
	case err != nil || failed != nil:
		round.Failed[s.GUID] = cmp.Or(err, failed)
		return nil
	}
	for i, p := range s.Ports {
		round.Ports[ib.End{GUID: s.GUID, Port: p}] = counters[i]
	}
	return nil
}

// note logs a switch once when it cannot be read, and once when it can be read again.
func (r *Reader) note(want []Switch, round *Round) {
	text := ""
	if round.Err != nil {
		text = round.Err.Error()
	}
	if text != r.trouble {
		switch r.trouble = text; {
		case text == "":
			r.Log.Info("counters are read again")
		case errors.Is(round.Err, umad.ErrNotBuiltIn), errors.Is(round.Err, opensm.ErrSwitchedOff):
			r.Log.Info("no counters are read", zap.NamedError("because", round.Err))
		default:
			r.Log.Warn("no counters are read", zap.Error(round.Err))
		}
	}
	for _, s := range want {
		text := ""
		if err := round.Failed[s.GUID]; err != nil {
			text = err.Error()
		}
		old, failing := r.failing[s.GUID]
		switch {
		case text != "" && text != old:
			r.Log.Warn("the counters of a switch are not read", zap.String("switch", s.Name), zap.Stringer("guid", s.GUID), zap.String("because", text))
			r.failing[s.GUID] = text
		case text == "" && failing && round.Err == nil:
			r.Log.Info("the counters of a switch are read again", zap.String("switch", s.Name), zap.Stringer("guid", s.GUID))
			delete(r.failing, s.GUID)
		}
	}
}

// close closes the port.
func (r *Reader) close() {
	if r.port != nil {
		_ = r.port.Close() // all results have been read
		r.port = nil
	}
}

// wait waits, and returns false if ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
