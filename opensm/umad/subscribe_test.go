package umad

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
)

// fakeManager is the subnet administrator of one LID or, after a handover, of
// another, by a reading of its own of sections 13.4.8 and 15.2.
type fakeManager struct {
	sync.Mutex // guards all of it

	t      testing.TB
	lid    ib.LID
	sl     uint8
	traps  map[uint16]bool // subscribed to at lid
	mute   bool
	status uint16
	broken error
	ours   uint8 // the service level set
	inbox  []mad
	sets   int
	acks   []uint32 // transaction IDs of Reports answered
}

func (a *fakeManager) level(sl uint8) {
	a.Lock()
	defer a.Unlock()
	a.ours = sl
}

func (a *fakeManager) from() ib.LID {
	a.Lock()
	defer a.Unlock()
	return a.lid
}

func (a *fakeManager) close() error { return nil }

func (a *fakeManager) send(m *mad, dlid uint16) error {
	a.Lock()
	defer a.Unlock()
	if a.broken != nil {
		return a.broken
	}
	if ib.LID(dlid) != a.lid {
		return nil // the manager has left this LID
	}
	if m[0] != 1 || m[1] != 3 || m[2] != 2 || a.ours != a.sl {
		a.t.Errorf("header % x, service level %d", m[:24], a.ours)
	}
	tid := binary.BigEndian.Uint32(m[12:])
	switch m[3] {
	case 0x86:
		a.acks = append(a.acks, tid)
	case 0x02:
		a.sets++
		i := m[56:]
		if binary.BigEndian.Uint16(m[16:]) != 3 || i[16] != 0xff || i[17] != 0xff || i[22] != 1 || i[24] != 0xff || i[25] != 0xff ||
			binary.BigEndian.Uint32(i[28:])>>8 != 1 || binary.BigEndian.Uint32(i[32:]) != 0xffffff {
			a.t.Errorf("InformInfo % x", i[:36])
		}
		if a.mute {
			return nil
		}
		if a.status == 0 {
			a.traps[binary.BigEndian.Uint16(i[26:])] = i[23] == 1
		}
		answer := *m
		answer[3] = 0x81
		binary.BigEndian.PutUint16(answer[4:], a.status)
		a.inbox = append(a.inbox, answer)
	default:
		a.t.Errorf("method %#x", m[3])
	}
	return nil
}

func (a *fakeManager) receive(m *mad, wait time.Duration) (ok, lost bool, err error) {
	if ok := a.first(m); ok {
		return true, false, nil
	}
	time.Sleep(wait)
	return a.first(m), false, nil
}

// first takes the first datagram, if there is one.
func (a *fakeManager) first(m *mad) bool {
	a.Lock()
	defer a.Unlock()
	if len(a.inbox) == 0 {
		return false
	}
	*m, a.inbox = a.inbox[0], a.inbox[1:]
	return true
}

// report delivers a Report if there is a subscription.
func (a *fakeManager) report(tid uint32, trap uint16, details ...byte) {
	if !a.traps[trap] {
		return
	}
	m := mad{0: 1, 1: 3, 2: 2, 3: 6, 17: 2}
	binary.BigEndian.PutUint32(m[12:], tid)
	m[56] = 0x81
	binary.BigEndian.PutUint16(m[60:], trap)
	binary.BigEndian.PutUint16(m[62:], 0x17)
	copy(m[66:], details)
	a.inbox = append(a.inbox, m)
}

// TestSubscription follows a subscription over traps, a manager that does not
// answer, one that refuses, and a handover.
func TestSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeManager{t: t, lid: 9, sl: 3, traps: map[uint16]bool{}, mute: true}
		var got []Event
		var selfErr error
		x := newSubscriber(a, Subscription{}, func(e Event) {
			a.Lock()
			defer a.Unlock()
			got = append(got, e)
		})
		x.self = func() (PortInfo, error) {
			a.Lock()
			defer a.Unlock()
			return PortInfo{LID: 77, SMLID: a.lid, SMSL: a.sl}, selfErr
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { x.run(ctx); close(done) }()
		// step changes something, and compares the events of a while after that.
		step := func(change func(), after time.Duration, want ...Event) {
			t.Helper()
			a.Lock()
			change()
			a.Unlock()
			time.Sleep(after)
			a.Lock()
			defer a.Unlock()
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
			got = nil
		}
		step(func() {}, 3100*time.Millisecond, Event{Err: "the manager at LID 9 does not answer InformInfo, asked 3 times"})
		step(func() { a.mute, a.status = false, 0x400 }, 3*time.Second,
			Event{Err: "the manager at LID 9 refuses a subscription to trap 64 with status 0x0400"})
		step(func() { a.status = 0 }, 3*time.Second, Event{Manager: 9})
		step(func() {
			if d := cmp.Diff(map[uint16]bool{64: true, 65: true, 128: true, 144: true}, a.traps); d != "" {
				t.Errorf("subscriptions (-want +got):\n%s", d)
			}
			a.report(501, 128, 0x12, 0x34)
			a.report(502, 144, 0, 0, 0x56, 0x78)
			a.report(503, 65, append(make([]byte, 21), 0x99)...)
		}, time.Second, Event{Notice: &Notice{Trap: 128, Subject: 0x1234}},
			Event{Notice: &Notice{Trap: 144, Subject: 0x5678}}, Event{Notice: &Notice{Trap: 65, GUID: 0x99}})
		step(func() {
			if !slices.Equal(a.acks, []uint32{501, 502, 503}) {
				t.Errorf("answered Reports %v", a.acks)
			}
			a.lid, a.traps, a.sl = 11, map[uint16]bool{}, 0
		}, 3*time.Second, Event{Manager: 11})
		sets := 0
		step(func() { // it is restarted at the same LID
			clear(a.traps)
			sets = a.sets
		}, time.Minute)
		step(func() {
			if !a.traps[64] || !a.traps[128] || a.sets != sets+4 {
				t.Errorf("renewed by %d datagrams: %v", a.sets-sets, a.traps)
			}
			selfErr = errors.New("no such port")
		}, 2*time.Second, Event{Err: "no such port"})
		step(func() { selfErr = nil }, 3*time.Second, Event{Manager: 11})
		step(func() { a.broken = errors.New("no buffers") }, 2*time.Minute, Event{Err: "send InformInfo to LID 11: no buffers"})
		step(func() { a.broken = nil }, time.Minute, Event{Manager: 11})
		cancel()
		<-done
		for trap, subscribed := range a.traps {
			if subscribed {
				t.Errorf("still subscribed to %d at the end", trap)
			}
		}
	})
}

func TestSubscriptionWithoutManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Event
		x := newSubscriber(&fakeManager{t: t}, Subscription{}, func(e Event) { got = append(got, e) })
		x.self = func() (PortInfo, error) { return PortInfo{}, nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		x.run(ctx)
		if len(got) != 1 || !strings.Contains(got[0].Err, "no subnet manager") {
			t.Errorf("events %v", got)
		}
	})
}
