package adapter

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// Port has the counts of a port since the last Clear.
type Port struct {
	XmitData, XmitPackets uint64 // bytes with headers, packets
	RcvData, RcvPackets   uint64
	// XmitWait is how long packets were waiting for the link while it was busy with
	// others; on an adapter, how long a queue pair had the largest number of packets
	// under way.
	XmitWait time.Duration
	Discards uint64 // packets that were lost on arrival at this port, or without a link
}

// Counters are those of all ports and of the run.
type Counters struct {
	Ports map[topology.PortRef]Port
	// Lost packets: for a dead port, for want of an entry, for too many hops (a
	// loop), and at an adapter that does not have the LID.
	DeadPort, NoEntry, Loop, WrongLID uint64
	// Events of the simulation, their mean and greatest delay, and for how long some
	// were late by more than 5 ms. Late events delay packets; if this lasts for a
	// notable part of a run, its throughput is meaningless.
	Events          uint64
	Late, Latest    time.Duration
	Behind, Elapsed time.Duration
}

// Count reads the counters. Of Count and Flows, one may run at a time.
func (a *Fabric) Count(ctx context.Context) (*Counters, error) {
	lines, err := a.ask(ctx, "count")
	if err != nil {
		return nil, err
	}
	return parseCounters(lines)
}

// ask sends an order that is answered by lines.
func (a *Fabric) ask(ctx context.Context, order string) ([]string, error) {
	if err := a.tell(func() error { _, err := io.WriteString(a.in, order+"\n"); return err }); err != nil {
		return nil, err
	}
	select {
	case lines := <-a.counted:
		return lines, nil
	case <-a.ended:
		return nil, errGone
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Flow is the LIDs of packets.
type Flow struct{ Src, Dst ib.LID }

// Flows are the packets that adapters have sent since the last Clear.
func (a *Fabric) Flows(ctx context.Context) (map[Flow]uint64, error) {
	lines, err := a.ask(ctx, "flows")
	if err != nil {
		return nil, err
	}
	flows := make(map[Flow]uint64, len(lines))
	for _, line := range lines {
		var f Flow
		var packets uint64
		if !scans(line, "flow %d %d %d", &f.Src, &f.Dst, &packets) {
			return nil, fmt.Errorf("flows of the data fabric: not understood: %s", line)
		}
		flows[f] = packets
	}
	return flows, nil
}

// Clear sets all counters to 0.
func (a *Fabric) Clear() error {
	return a.tell(func() error { _, err := io.WriteString(a.in, "clear\n"); return err })
}

// ticks is a time in the unit of PortXmitWait, that of four bytes on a link.
func (a *Fabric) ticks(d time.Duration) uint64 {
	return uint64(d.Seconds() * float64(a.options.Rate) / 4)
}

// Publish gives the ports of switches in a simulation the counters PortXmitData and
// PortXmitWait, so that perfquery and forsd read the data that the links have carried. They
// stay at their greatest value, as counters of 32 bits do.
func (a *Fabric) Publish(ctx context.Context, s *ibsim.Sim, c *Counters) error {
	for ref, p := range c.Ports {
		n := &a.options.Fabric.Nodes[ref.Node]
		if n.Kind != topology.Switch {
			continue
		}
		for field, value := range map[string]uint64{"PortXmitData": p.XmitData / 4, "PortXmitWait": a.ticks(p.XmitWait)} {
			if err := s.SetCounter(ctx, n.GUID.String(), int(ref.Port), "PortCounters."+field, min(value, math.MaxUint32)); err != nil {
				return err
			}
		}
	}
	return nil
}

func parseCounters(lines []string) (*Counters, error) {
	c := &Counters{Ports: map[topology.PortRef]Port{}}
	for _, line := range lines {
		var sum, wait int64
		var ref topology.PortRef
		var p Port
		switch {
		case scans(line, "late %d %d %d %d %d", &c.Events, &sum, &c.Latest, &c.Behind, &c.Elapsed):
			if c.Events > 0 {
				c.Late = time.Duration(sum / int64(c.Events))
			}
		case scans(line, "lost %d %d %d %d", &c.DeadPort, &c.NoEntry, &c.Loop, &c.WrongLID):
		case scans(line, "port %d %d %d %d %d %d %d %d", &ref.Node, &ref.Port, &p.XmitData, &p.XmitPackets, &p.RcvData, &p.RcvPackets, &wait, &p.Discards):
			p.XmitWait = time.Duration(wait)
			c.Ports[ref] = p
		default:
			return nil, fmt.Errorf("counters of the data fabric: not understood: %s", line)
		}
	}
	return c, nil
}

func scans(line, format string, to ...any) bool {
	n, _ := fmt.Sscanf(line, format, to...)
	return n == len(to)
}
