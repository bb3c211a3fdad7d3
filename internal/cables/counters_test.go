package cables

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/topology"
)

// fabric has counters that count up, and a response time for each switch.
type fabric struct {
	opened, closed int
	at             []time.Time
	takes          time.Duration
	failing        map[ib.LID]error
	broken         error // of the port
}

func (f *fabric) Read(ctx context.Context, lid ib.LID, ports []uint8) (out []umad.PortCounters, failed, err error) {
	f.at = append(f.at, time.Now())
	if f.broken != nil {
		return nil, nil, f.broken
	}
	select {
	case <-time.After(f.takes):
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if failed := f.failing[lid]; failed != nil {
		return nil, failed, nil
	}
	for _, p := range ports {
		out = append(out, umad.PortCounters{Counters: ib.Counters{Symbols: uint64(lid)*100 + uint64(p)}})
	}
	return out, nil, nil
}

func (f *fabric) Close() error { f.closed++; return nil }

// start starts reading four switches.
func start(t *testing.T, f *fabric) (rounds chan Round, log *observer.ObservedLogs) {
	t.Helper()
	core, log := observer.New(zap.InfoLevel)
	rounds = make(chan Round)
	r := NewReader("off", nil)
	r.Every, r.Log = 20*time.Second, zap.New(core)
	r.open = func() (counting, error) { f.opened++; return f, nil }
	r.Want = func() (all []Switch) {
		for g := range ib.GUID(4) {
			all = append(all, Switch{GUID: g, Name: "S" + g.String(), LID: ib.LID(g + 1), Ports: []uint8{3, 7}})
		}
		return all
	}
	r.Told = func(ctx context.Context, round Round) {
		select {
		case rounds <- round:
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil || f.closed != f.opened {
			t.Errorf("%v; the port was opened %d times and closed %d times", err, f.opened, f.closed)
		}
	})
	return rounds, log
}

// TestRounds checks that switches are spread over the time of a round, and that those that do
// not answer are reported once, whatever their response time.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fabric{takes: 100 * time.Millisecond, failing: map[ib.LID]error{2: errors.New("it does not answer")}}
		began := time.Now()
		rounds, log := start(t, f)
		round := <-rounds
		if len(round.Ports) != 6 || round.Ports[ib.End{GUID: 3, Port: 7}].Symbols != 407 || round.Ended.Sub(began) != 20*time.Second || round.Busy != 400*time.Millisecond {
			t.Errorf("%+v", round)
		}
		if failed := slices.Collect(maps.Keys(round.Failed)); !slices.Equal(failed, []ib.GUID{1}) {
			t.Errorf("failed: %v", failed)
		}
		for i, at := range f.at {
			if want := time.Duration(i) * 5 * time.Second; at.Sub(began) != want {
				t.Errorf("switch %d was read after %v, want %v", i, at.Sub(began), want)
			}
		}
		<-rounds
		if n := log.FilterMessageSnippet("not read").Len(); n != 1 {
			t.Errorf("told %d times of a switch that does not answer", n)
		}
		round.Forget(round.Began.Add(9*time.Second), round.Began.Add(10*time.Second))
		if len(round.Ports) != 4 || round.Ports[ib.End{GUID: 2, Port: 3}].Symbols != 0 || round.Ports[ib.End{GUID: 3, Port: 3}].Symbols == 0 {
			t.Errorf("after the switch that was asked after 10 s is forgotten: %+v", round.Ports)
		}
		f.failing = nil
		<-rounds
		if round = <-rounds; len(round.Ports) != 8 || log.FilterMessageSnippet("read again").Len() != 1 || f.opened != 1 {
			t.Errorf("%d ports; %v; opened %d times", len(round.Ports), log.All(), f.opened)
		}
		// A switch that never answers costs its patience; the rest of the round is unaffected.
		f.takes = time.Hour
		<-rounds // its first switch may have been read before
		if round = <-rounds; len(round.Failed) != 4 || round.Ended.Sub(round.Began) != 4*patience {
			t.Errorf("%d failed after %v", len(round.Failed), round.Ended.Sub(round.Began))
		}
	})
}

// TestPortFails checks that a failing local port is opened again once per round, and reported
// once.
func TestPortFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fabric{broken: errors.New("the port was closed")}
		rounds, log := start(t, f)
		for range 3 {
			if round := <-rounds; round.Err == nil || len(round.Ports) != 0 || !strings.Contains(round.Err.Error(), "closed") {
				t.Errorf("%+v", round)
			}
		}
		if f.opened > 4 || log.Len() != 1 {
			t.Errorf("opened %d times; %v", f.opened, log.All())
		}
		f.broken = nil
		<-rounds
		if round := <-rounds; round.Err != nil || len(round.Ports) != 8 || log.Len() != 2 {
			t.Errorf("%+v; %v", round, log.All())
		}
	})
}

// TestNotThere checks the reason reported if the port is disabled or not built in.
func TestNotThere(t *testing.T) {
	r := NewReader(opensm.UmadOff, func() *topology.Fabric { return nil })
	if _, err := r.open(); err == nil {
		t.Error("a port that is off was opened")
	}
}
