package umad

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// FuzzAttributes gives every parser the same bytes. Accepted values are within the bounds of
// the standard.
func FuzzAttributes(f *testing.F) {
	f.Add(make([]byte, 200))
	node := make([]byte, 64)
	node[2], node[3], node[20], node[36] = 2, 36, 9, 7
	f.Add(node)
	port := make([]byte, 64)
	port[31], port[32], port[33], port[35], port[62] = 2, 4, 0x52, 0x11, 0x40
	f.Add(port)
	notice := make([]byte, 80)
	notice[0], notice[5] = 0x81, 128
	f.Add(notice)
	f.Fuzz(func(t *testing.T, data []byte) {
		b := make([]byte, 200)
		copy(b, data)
		if n, err := parseNodeInfo(b); err == nil {
			if n.ports < 1 || n.ports > 254 || n.kind < topology.Switch || n.kind > topology.Router || uint64(n.guid) != binary.BigEndian.Uint64(b[12:20]) {
				t.Errorf("NodeInfo %+v", n)
			}
		}
		if top, err := parseSwitchInfo(b); err == nil && top > ib.MaxUnicastLID {
			t.Errorf("SwitchInfo up to %d", top)
		}
		if p, err := parsePortInfo(b); err == nil {
			if p.State > topology.Active || p.Rate.String() == "" || p.SMSL > 15 {
				t.Errorf("PortInfo %+v", p)
			}
		}
		if n, err := parseNotice(b); err == nil {
			if b[0] < 0x80 || n.GUID != 0 && n.Trap != TrapInService && n.Trap != TrapOutOfService || n.Subject != 0 && n.Trap != TrapLinkState && n.Trap != TrapCapabilities {
				t.Errorf("Notice %+v", n)
			}
		}
	})
}

// strange is a wire that brings whatever it was given, in pieces as long as a
// datagram.
type strange struct {
	input []byte
	sent  int
	tid   uint32
}

func (s *strange) send(m *mad, _ uint16) error { s.sent, s.tid = s.sent+1, m.tid(); return nil }
func (s *strange) close() error                { return nil }
func (s *strange) level(uint8)                 {}
func (s *strange) from() ib.LID                { return 5 }

// receive takes 64 bytes of input as the begin of header and attribute each; a
// first byte of 0 brings the right transaction ID.
func (s *strange) receive(m *mad, _ time.Duration) (ok, lost bool, err error) {
	if len(s.input) < 64 {
		return false, false, nil
	}
	*m = mad{}
	copy(m[:24], s.input[:24])
	copy(m[56:], s.input[24:64])
	copy(m[64:], s.input[24:64])
	if s.input[0] == 0 {
		binary.BigEndian.PutUint32(m[12:], s.tid)
	}
	lost = s.input[2] == 0xff
	s.input = s.input[64:]
	return true, lost, nil
}

// FuzzDatagrams has strangers answer a burst and a subscription. Nothing must
// come of it but events of Reports and an answer to each.
func FuzzDatagrams(f *testing.F) {
	answer := make([]byte, 64)
	answer[1], answer[3], answer[17] = 1, 0x81, 0x11
	answer[24+2], answer[24+3], answer[24+12] = 2, 36, 1
	ports := append([]byte{}, answer...)
	ports[17], ports[23], ports[24+32] = 0x15, 36, 4
	f.Add(append(append([]byte{}, answer...), ports...))
	report := make([]byte, 64)
	report[1], report[3], report[17], report[24], report[24+5] = 3, 6, 2, 0x81, 128
	f.Add(report)
	grant := make([]byte, 64)
	grant[1], grant[3], grant[17] = 3, 0x81, 3
	f.Add(grant)
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &strange{input: data}
		x := &loop{wire: w, limits: limits{window: 4, perNode: 4, timeout: time.Hour, tries: 2}}
		b := &burst{peers: []peer{{ways: []way{{lid: 1}, {}}}}, done: make(chan struct{})}
		answers, known := 0, false
		b.known = func(int) error { known = true; b.ask(0, attrPortInfo, 36); return nil }
		b.answer = func(q question, _ []byte) error {
			if answers++; !known || q.attr != attrPortInfo || q.mod != 36 || answers > 1 {
				t.Errorf("answer %d is taken for %+v", answers, q)
			}
			return nil
		}
		b.ask(0, attrNodeInfo, 0)
		x.under = []*burst{b}
		for len(w.input) >= 64 && (b.peers[0].waiting > 0 || len(b.peers[0].queue) > 0) {
			if err := x.fill(); err != nil {
				t.Fatal(err)
			}
			if len(x.sent) == 0 {
				t.Fatal("the burst hangs")
			}
			if err := x.receiveOne(); err != nil {
				t.Fatal(err)
			}
		}

		w = &strange{input: data}
		events := 0
		s := newSubscriber(w, Subscription{}, func(Event) { events++ })
		for s.manager = 5; len(w.input) >= 64; {
			s.receiveOne()
		}
		if events > w.sent {
			t.Errorf("%d events and %d answers to Reports", events, w.sent)
		}
	})
}
