package published

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/api"
)

// TestEventsRing drives readers of different pace against a ring: each gets
// every event once and in order, or is told that some are missing, and never
// misses one that the ring still had.
func TestEventsRing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(rt, "size")
		s := NewEvents(size, started)
		var published []string
		type reader struct {
			at   uint64
			seen int // how many of published it has had or been told are lost
		}
		var readers [3]reader
		for range rapid.IntRange(0, 60).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "publish") {
				data := fmt.Sprint(len(published))
				if err := s.Publish("link", json.RawMessage(data)); err != nil {
					rt.Fatal(err)
				}
				published = append(published, data)
				continue
			}
			r := &readers[rapid.IntRange(0, 2).Draw(rt, "reader")]
			if r.seen == len(published) {
				continue
			}
			events, at := s.Wait(context.Background(), r.at)
			r.at = at
			if lost := len(published) - r.seen - size; lost > 0 {
				if events[0].Kind != api.KindMissed {
					rt.Fatalf("%d events are lost, yet the first is %+v", lost, events[0])
				}
				if n, ok := s.after(events[0].ID); !ok || n != uint64(r.seen+lost) {
					rt.Fatalf("the ID of what was lost leads to %d, want %d", n, r.seen+lost)
				}
				events, r.seen = events[1:], r.seen+lost
			}
			for _, e := range events {
				if string(e.Data) != published[r.seen] {
					rt.Fatalf("event %s, want %s", e.Data, published[r.seen])
				}
				r.seen++
				if n, ok := s.after(e.ID); !ok || n != uint64(r.seen) {
					rt.Fatalf("ID %s leads to %d, want %d", e.ID, n, r.seen)
				}
			}
			if r.seen != len(published) {
				rt.Fatalf("%d of %d events", r.seen, len(published))
			}
		}
	})
}

// TestEventsNameTheFabric looks for the fabric's name in the data of an event.
func TestEventsNameTheFabric(t *testing.T) {
	s := NewEvents(4, started)
	s.Name("plane-3")
	if err := s.Publish(api.KindStart, api.Start{Version: "1"}); err != nil {
		t.Fatal(err)
	}
	if e := s.since(0); len(e) != 1 || string(e[0].Data) != `{"fabric":"plane-3","release":"1"}` {
		t.Errorf("%s", e)
	}
}

func TestEventsRefuseWhatIsNoJSON(t *testing.T) {
	s := NewEvents(4, started)
	if err := s.Publish("link", make(chan int)); err == nil {
		t.Error("a channel was published")
	}
	if n, ok := s.after(""); n != 0 || !ok {
		t.Errorf("the latest event is %d", n)
	}
}

func TestEventIDsOfOthers(t *testing.T) {
	s, other := NewEvents(4, started), NewEvents(4, started.Add(time.Second))
	for range 3 {
		for _, e := range []*Events{s, other} {
			if err := e.Publish("link", 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, id := range []string{other.ID(2), s.ID(4), "2", "-2", "x-y", s.run, s.run + "-", s.run + "--1"} {
		if n, ok := s.after(id); ok || n != 3 {
			t.Errorf("ID %q leads to %d (%t), want 3 (false)", id, n, ok)
		}
	}
}

// TestCrowd makes many streams wait for events. The first are woken at once and the others
// within a time that grows with their number. None is forgotten when events come during the
// waking, and streams that have ended leave nothing behind.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 3000
		s := NewEvents(64, time.Now())
		ctx, leave := context.WithCancel(t.Context())
		var streams sync.WaitGroup
		var mu sync.Mutex
		seen := map[uint64][]time.Duration{} // by event: when the streams knew it
		begin := time.Now()
		for range all {
			streams.Go(func() {
				for at := uint64(0); ctx.Err() == nil; {
					wait, cancel := context.WithTimeout(ctx, api.KeepAlive)
					_, next := s.Wait(wait, at)
					cancel()
					mu.Lock()
					for ; at < next; at++ {
						seen[at+1] = append(seen[at+1], time.Since(begin))
					}
					mu.Unlock()
				}
			})
		}
		time.Sleep(100*api.KeepAlive + api.KeepAlive/2) // they have come back many times
		begin = time.Now()
		say := func() {
			if err := s.Publish(api.KindLink, nil); err != nil {
				t.Error(err)
			}
		}
		say()
		synctest.Wait()
		mu.Lock()
		if n := len(seen[1]); n != mostNear {
			t.Errorf("%d are woken at once", n)
		}
		mu.Unlock()
		time.Sleep(lateAfter / 2)
		say() // it is told with the first
		time.Sleep(50 * time.Millisecond)
		say() // during the waking
		time.Sleep(2 * time.Second)
		leave()
		streams.Wait()
		for n, most := range map[uint64]time.Duration{1: 450 * time.Millisecond, 2: 450 * time.Millisecond, 3: 900 * time.Millisecond} {
			if len(seen[n]) != all || slices.Max(seen[n]) > most {
				t.Errorf("event %d was told to %d, the last after %v", n, len(seen[n]), slices.Max(seen[n]))
			}
		}
		if len(s.late) != 0 || len(s.waiting) != 0 || s.waking {
			t.Errorf("%d are late still, %d wait, waking %v", len(s.late), len(s.waiting), s.waking)
		}
	})
}

// TestHold has many wait for a plan and for events: while forsd works on a change the first
// know at once, and the others when OpenSM has its tables, or after some seconds.
func TestHold(t *testing.T) {
	for held, most := range map[time.Duration]time.Duration{0: 450 * time.Millisecond, 500 * time.Millisecond: 950 * time.Millisecond, time.Hour: mostHeld + 450*time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			const all = 3000
			s := NewEvents(64, time.Now())
			var streams sync.WaitGroup
			var mu sync.Mutex
			var seen []time.Duration
			begin := time.Now()
			for range all {
				streams.Go(func() {
					_, _ = s.Wait(t.Context(), 0)
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, time.Since(begin))
				})
			}
			synctest.Wait()
			s.Hold(held > 0)
			if err := s.Publish(api.KindLink, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(min(held, mostHeld-time.Millisecond))
			synctest.Wait()
			mu.Lock()
			n := len(seen)
			mu.Unlock()
			s.Hold(held > mostHeld)
			streams.Wait()
			if last := slices.Max(seen); n != mostNear || last > most || last < held && last < mostHeld {
				t.Errorf("held for %v: %d knew it at once, the last after %v", held, n, last)
			}
			time.Sleep(time.Second)
			if len(s.late) != 0 || len(s.waiting) != 0 || s.waking {
				t.Errorf("%d are late still, %d wait, waking %v", len(s.late), len(s.waiting), s.waking)
			}
		})
	}
}
