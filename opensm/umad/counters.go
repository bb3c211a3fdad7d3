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

// Wanted are the ports of a node whose counters are to be read.
type Wanted struct {
	LID   ib.LID
	Ports []uint8
}

// Counted is what was read of a node: the counters of the ports in the order in which
// they were wanted, or why they could not be read.
type Counted struct {
	Counters []PortCounters
	Err      error
}

// Read reads counters of nodes, and resets none. Its error is the context's or the
// port's; how each node fared stands with it.
func (c *Counting) Read(ctx context.Context, nodes []Wanted) ([]Counted, error) {
	b := newCountingBurst(ctx, nodes)
	if err := c.loop.do(&b.burst); err != nil {
		return nil, fmt.Errorf("read counters by port %s: %w", c.port, err)
	}
	for i := range b.out {
		if err := b.peers[i].err; err != nil {
			b.out[i] = Counted{Err: fmt.Errorf("read the counters of LID %d: %w", nodes[i].LID, err)}
		}
	}
	return b.out, nil
}

// countingBurst reads counters.
type countingBurst struct {
	burst
	wanted           []Wanted
	out              []Counted // [peer]
	extended, errors []bool    // [peer] it has extended counters; those have errors
}

func newCountingBurst(ctx context.Context, nodes []Wanted) *countingBurst {
	b := &countingBurst{burst: burst{ctx: ctx}, wanted: nodes, out: make([]Counted, len(nodes)),
		extended: make([]bool, len(nodes)), errors: make([]bool, len(nodes))}
	b.answer = b.keep
	for i := range nodes {
		p := peer{ways: []way{{lid: nodes[i].LID, counters: true}}}
		if nodes[i].LID == 0 {
			p.err = errors.New("it has no LID yet")
		}
		b.peers = append(b.peers, p)
		b.out[i].Counters = make([]PortCounters, len(nodes[i].Ports))
		if p.err == nil {
			b.ask(i, attrClassPortInfo, 0)
		}
	}
	return b
}

// keep keeps an answer, and asks for counters once it is known which there are: for the
// extended ones after the others, in whose place they are.
func (b *countingBurst) keep(q question, data []byte) error {
	wanted := b.wanted[q.node].Ports
	if q.attr == attrClassPortInfo {
		b.extended[q.node], b.errors[q.node] = parseCapabilities(data)
		for _, port := range wanted {
			b.ask(q.node, attrPortCounters, uint32(port))
		}
		return nil
	}
	at := slices.Index(wanted, uint8(q.mod))
	c := &b.out[q.node].Counters[at]
	if q.attr == attrPortCounters {
		if *c = parsePortCounters(data); b.extended[q.node] {
			b.ask(q.node, attrPortCountersExtended, q.mod)
		}
		return nil
	}
	c.extend(data, b.errors[q.node])
	return nil
}
