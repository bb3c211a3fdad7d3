package umad

import (
	"encoding/binary"
	"testing"

	"github.com/forsd/forsd/ib"
)

// TestExtendedErrors: where a node has extended counters of errors, they stand, and none
// is ever full.
func TestExtendedErrors(t *testing.T) {
	var class, plain, extended [192]byte
	binary.BigEndian.PutUint16(class[2:], capExtended)
	binary.BigEndian.PutUint32(class[4:], capExtendedErrors<<5|18)
	if ext, errs := parseCapabilities(class[:]); !ext || !errs {
		t.Errorf("capabilities %v, %v", ext, errs)
	}
	if ext, errs := parseCapabilities(make([]byte, 192)); ext || errs {
		t.Errorf("capabilities of nothing %v, %v", ext, errs)
	}
	plain[19] = 0xf0 // local integrity at its greatest
	c := parsePortCounters(plain[:])
	if !c.Full || c.Integrity != 15 {
		t.Errorf("plain counters %+v", c)
	}
	for i := range 22 {
		binary.BigEndian.PutUint64(extended[8+8*i:], uint64(i+1)<<32)
	}
	c.extend(extended[:], true)
	want := PortCounters{DataSent: 1, Counters: ib.Counters{Sent: 3, Symbols: 9, Recoveries: 10, Downed: 11,
		Received: 12, Discards: 15, Integrity: 18, Overruns: 19, Wait: 21}}
	for _, f := range []*uint64{&want.DataSent, &want.Sent, &want.Symbols, &want.Recoveries,
		&want.Downed, &want.Received, &want.Discards, &want.Integrity, &want.Overruns, &want.Wait} {
		*f <<= 32
	}
	if c != want {
		t.Errorf("%+v\nwant %+v", c, want)
	}
}

// TestAnswersReversed: extended counters stand whichever question is answered first.
func TestAnswersReversed(t *testing.T) {
	b := newCountingBurst(t.Context(), 5, []uint8{3, 7})
	for queue := &b.peers[0].queue; len(*queue) > 0; {
		q := (*queue)[len(*queue)-1]
		*queue = (*queue)[:len(*queue)-1]
		var data [192]byte
		switch q.attr {
		case attrClassPortInfo:
			binary.BigEndian.PutUint16(data[2:], capExtended)
			binary.BigEndian.PutUint32(data[4:], capExtendedErrors<<5)
		case attrPortCounters:
			binary.BigEndian.PutUint16(data[4:], 65535)
		case attrPortCountersExtended:
			binary.BigEndian.PutUint64(data[72:], 1<<20)
		}
		if err := b.keep(q, data[:]); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range b.out {
		if c.Symbols != 1<<20 || c.Full {
			t.Errorf("port %d: %+v", b.ports[i], c)
		}
	}
}
