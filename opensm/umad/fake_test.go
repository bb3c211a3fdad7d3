package umad

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/routed"
	"github.com/forsd/forsd/topology"
)

// fakeFabric is a wire with a fabric behind it that answers datagrams as section
// 14 of the standard has it, by a reading of its own. It is used inside a bubble
// of testing/synctest.
type fakeFabric struct {
	t      testing.TB
	fabric *topology.Fabric
	from   topology.PortRef
	tables map[ib.GUID][]uint8
	byLID  map[ib.LID]int32 // node, None for one that swallows all

	delay  func() time.Duration                             // of an answer; nil means 50 µs
	mangle func(node int32, m *mad) (copies int, lost bool) // nil means one answer
	status func(node int32, attr uint16) uint16             // nil means success
	broken error                                            // of send
	coming []arrival                                        // in no order
	asked  []int32                                          // node of each question
	under  map[int32]int                                    // questions under way
	most   int                                              // of them at once, of all nodes
	mostOf int                                              // and of one
}

type arrival struct {
	at   time.Time
	node int32
	lost bool
	last bool // no more will come for this question
	mad  mad
}

func newFake(t testing.TB, spec fabgen.Spec) *fakeFabric {
	f := fabgen.Generate(spec)
	w := &fakeFabric{t: t, fabric: f, from: topology.PortRef{Node: f.Find(fabgenHost(f)), Port: 1},
		tables: map[ib.GUID][]uint8{}, byLID: map[ib.LID]int32{}, under: map[int32]int{}}
	tables, err := routed.Tables(f)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tables.Switches {
		s := &tables.Switches[i]
		w.tables[s.GUID] = s.Out
		w.byLID[s.LID] = f.Find(s.GUID)
	}
	return w
}

// fabgenHost is the GUID of some host.
func fabgenHost(f *topology.Fabric) ib.GUID {
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Adapter {
			return f.Nodes[i].GUID
		}
	}
	return 0
}

func (w *fakeFabric) send(m *mad, dlid uint16) error {
	if w.broken != nil {
		return w.broken
	}
	if m[0] != 1 || m[2] != 1 || m[3] != 1 || !bytes.Equal(m[24:32], make([]byte, 8)) {
		w.t.Errorf("header % x: want base version 1, class version 1, SubnGet, M_Key 0", m[:32])
	}
	node := w.target(m, dlid)
	w.asked = append(w.asked, node)
	w.under[node]++
	total := 0
	for _, n := range w.under {
		total += n
	}
	w.most, w.mostOf = max(w.most, total), max(w.mostOf, w.under[node])
	copies, lost := 1, false
	if node == topology.None {
		copies = 0
	} else if w.mangle != nil {
		copies, lost = w.mangle(node, m)
	}
	answer := *m
	if !lost && node != topology.None {
		w.answer(&answer, node)
	}
	for i := range copies {
		delay := 50 * time.Microsecond
		if w.delay != nil {
			delay = w.delay()
		}
		w.coming = append(w.coming, arrival{time.Now().Add(delay), node, lost, i == copies-1, answer})
	}
	if copies == 0 { // the asker will get no answer
		w.coming = append(w.coming, arrival{time.Now().Add(200 * time.Millisecond), node, false, true, mad{}})
	}
	return nil
}

// target is the node that a datagram reaches.
func (w *fakeFabric) target(m *mad, dlid uint16) int32 {
	switch m[1] {
	case 0x01:
		if node, ok := w.byLID[ib.LID(dlid)]; ok {
			return node
		}
		return topology.None
	case 0x81:
		at := w.from.Node
		for _, port := range m[129 : 129+int(m[7])] {
			p := w.fabric.Nodes[at].Ports[port]
			if !p.Up() {
				return topology.None
			}
			at = p.Peer
		}
		if dlid != 0xffff || binary.BigEndian.Uint32(m[32:]) != 0xffffffff || m[6] != 0 {
			w.t.Errorf("directed route with LID %#x, % x, hop pointer %d", dlid, m[32:36], m[6])
		}
		return at
	}
	w.t.Errorf("class %#x", m[1])
	return topology.None
}

func (w *fakeFabric) answer(m *mad, node int32) {
	n := &w.fabric.Nodes[node]
	attr, mod := binary.BigEndian.Uint16(m[16:]), binary.BigEndian.Uint32(m[20:])
	m[3] |= 0x80
	binary.BigEndian.PutUint32(m[8:], 0xdead0001) // the upper half is the kernel's
	data := m[64:128]
	switch attr {
	case 0x11:
		data[0], data[1], data[2], data[3], data[36] = 1, 1, 2, uint8(len(n.Ports)-1), 1
		if n.Kind == topology.Adapter {
			data[2] = 1
		}
		binary.BigEndian.PutUint64(data[12:], uint64(n.GUID))
	case 0x12:
		binary.BigEndian.PutUint16(data[6:], uint16(len(w.tables[n.GUID])-1))
	case 0x15:
		data[31], data[32], data[33], data[35] = 2, uint8(n.Ports[mod].State)+1, 0x50, 0x44
	case 0x19:
		for i := range data {
			data[i] = 0xee // beyond the table
		}
		copy(data, w.tables[n.GUID][64*mod:])
	}
	if w.status != nil {
		binary.BigEndian.PutUint16(m[4:], w.status(node, attr))
	}
	if m[1] == 0x81 {
		m[4] |= 0x80 // the direction bit
	}
}

func (w *fakeFabric) receive(m *mad, wait time.Duration) (ok, lost bool, err error) {
	for end := time.Now().Add(wait); ; {
		first := -1
		for i := range w.coming {
			if first < 0 || w.coming[i].at.Before(w.coming[first].at) {
				first = i
			}
		}
		if first < 0 || w.coming[first].at.After(end) {
			time.Sleep(time.Until(end))
			return false, false, nil
		}
		time.Sleep(time.Until(w.coming[first].at))
		a := w.coming[first]
		w.coming = append(w.coming[:first], w.coming[first+1:]...)
		if a.last {
			w.under[a.node]--
		}
		if a.mad != (mad{}) {
			*m = a.mad
			return true, a.lost, nil
		}
	}
}

func (w *fakeFabric) close() error { return errors.New("closed by the test") }

// reader is a Reader on the fake.
func (w *fakeFabric) reader() *Reader {
	return &Reader{loop: newLoop(w, Options{}.withDefaults()), port: LocalPort{Device: "fake0", Number: 1}}
}

// unruly loses a tenth of the answers, gives as many questions back, doubles as
// many and mixes their order; some answers are later than the time-out.
func (w *fakeFabric) unruly(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	w.delay = func() time.Duration {
		if rng.IntN(50) == 0 {
			return 300 * time.Millisecond
		}
		return time.Duration(rng.IntN(1000)) * time.Microsecond
	}
	tries := map[string]int{}
	w.mangle = func(node int32, m *mad) (int, bool) {
		key := string(m[16:24]) + string(node)
		if tries[key]++; tries[key] > 1 { // two tries out of three may fail
			return 1, false
		}
		switch rng.IntN(10) {
		case 0:
			return 0, false
		case 1:
			return 1, true
		case 2:
			return 2, false
		}
		return 1, false
	}
}
