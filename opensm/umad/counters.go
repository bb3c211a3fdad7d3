package umad

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/forsd/forsd/ib"
)

// PortCounters are the counters of a port, and the data that it has sent, in units of 4 bytes.
type PortCounters struct {
	ib.Counters
	DataSent uint64
}

// parsePortCounters reads PortCounters.
func parsePortCounters(b []byte) PortCounters {
	u16 := func(at int) uint64 { return uint64(binary.BigEndian.Uint16(b[at:])) }
	u32 := func(at int) uint64 { return uint64(binary.BigEndian.Uint32(b[at:])) }
	c := PortCounters{Counters: ib.Counters{Symbols: u16(4), Recoveries: uint64(b[6]), Downed: uint64(b[7]), Received: u16(8),
		Discards: u16(14), Integrity: uint64(b[19] >> 4), Overruns: uint64(b[19] & 15), Sent: u32(32), Wait: u32(40)}, DataSent: u32(24)}
	c.Full = slices.Contains([]uint64{c.Symbols, c.Received, c.Discards}, math.MaxUint16) ||
		max(b[6], b[7]) == math.MaxUint8 || max(c.Integrity, c.Overruns) == 15
	return c
}

// extend parses PortCountersExtended; errors is whether it has error counters.
func (c *PortCounters) extend(b []byte, errors bool) {
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	c.DataSent, c.Sent = u64(8), u64(24)
	if !errors {
		return
	}
	c.Symbols, c.Recoveries, c.Downed = u64(72), u64(80), u64(88)
	c.Received, c.Discards = u64(96), u64(120)
	c.Integrity, c.Overruns, c.Wait = u64(144), u64(152), u64(168)
	c.Full = false
}

// The parts of ClassPortInfo that tell which counters a node has (section 16.1.3.1).
const (
	capExtended       = 1 << 9 // in CapabilityMask: PortCountersExtended
	capExtendedErrors = 1 << 1 // in CapabilityMask2: with counters of errors
)

// parseCapabilities reads ClassPortInfo.
func parseCapabilities(b []byte) (extended, errors bool) {
	return binary.BigEndian.Uint16(b[2:])&capExtended != 0, binary.BigEndian.Uint32(b[4:])>>5&capExtendedErrors != 0
}

// Counting reads counters by one local port. Its methods may be called concurrently.
type Counting struct {
	loop *loop
	port LocalPort
}

// OpenCounting opens a local port to read counters, independent of its other users. The
// options should be small: counters are never urgent.
func OpenCounting(p LocalPort, o Options) (*Counting, error) {
	l := o.withDefaults()
	d, err := open(p, gsiQP, l.timeout, agent{class: classPerf, version: 1})
	if err != nil {
		return nil, fmt.Errorf("open port %s to read counters: %w", p, err)
	}
	return &Counting{newLoop(d, l), p}, nil
}

// Close ends what is under way and closes the port.
func (c *Counting) Close() error { return c.loop.close() }

// Read reads counters of ports of a node, in the order of the ports, and resets none. If it cannot,
// failed says what is wrong with the node, or err is the error of the context or the local port.
func (c *Counting) Read(ctx context.Context, lid ib.LID, ports []uint8) (counters []PortCounters, failed, err error) {
	b := newCountingBurst(ctx, lid, ports)
	if lid == 0 {
		failed = errors.New("it has no LID yet")
	} else if err = c.loop.do(&b.burst); err != nil {
		return nil, nil, fmt.Errorf("read counters by port %s: %w", c.port, err)
	} else if failed = b.peers[0].err; failed == nil {
		return b.out, nil, nil
	}
	return nil, fmt.Errorf("read the counters of LID %d: %w", lid, failed), nil
}

// countingBurst reads counters of a node.
type countingBurst struct {
	burst
	ports            []uint8
	out              []PortCounters
	extended, errors bool // it has extended counters; those have errors
}

func newCountingBurst(ctx context.Context, lid ib.LID, ports []uint8) *countingBurst {
	b := &countingBurst{burst: burst{ctx: ctx, peers: []peer{{ways: []way{{lid: lid, counters: true}}}}}, ports: ports, out: make([]PortCounters, len(ports))}
	b.answer = b.keep
	b.ask(0, attrClassPortInfo, 0)
	return b
}

// keep keeps an answer, and asks for counters once it is known which there are: for the
// extended ones after the others, in whose place they are.
func (b *countingBurst) keep(q question, data []byte) error {
	if q.attr == attrClassPortInfo {
		b.extended, b.errors = parseCapabilities(data)
		for _, port := range b.ports {
			b.ask(0, attrPortCounters, uint32(port))
		}
		return nil
	}
	c := &b.out[slices.Index(b.ports, uint8(q.mod))]
	if q.attr == attrPortCounters {
		if *c = parsePortCounters(data); b.extended {
			b.ask(0, attrPortCountersExtended, q.mod)
		}
		return nil
	}
	c.extend(data, b.errors)
	return nil
}
