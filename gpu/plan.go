package gpu

import (
	"context"
	"fmt"
)

// Mode is a way to make a plan.
type Mode string

// The modes, see the package comment. None is Theorem 4 on the unbalanced blocks,
// without any move inside a server.
const (
	Auto    Mode = "auto"
	Paper   Mode = "paper"
	Rails   Mode = "rails"
	MinMove Mode = "minmove"
	Bytes   Mode = "bytes"
	None    Mode = "none"
)

// Modes lists the modes in the order in which Auto tries them, Auto first.
var Modes = []Mode{Auto, Bytes, Rails, MinMove, Paper, None}

// Segment is a stretch of the message from one GPU to another, with the NICs that it
// travels over: Out is in the source's server, In in the destination's. If Out is not
// the source itself, its bytes are moved there during the previous stage; if In is not
// the destination, they are moved on during the next stage.
type Segment struct {
	Source, Destination, Out, In Rank
	Offset, Bytes                int64 // from the message's beginning
}

// Transfer is the data that one NIC sends to another in a stage: bytes of the stream
// between the two, which consists of all segments with these NICs in the plan's order.
// It begins Skip bytes into the segment of number Segment.
type Transfer struct {
	From    Rank  `json:"from"`
	To      Rank  `json:"to"`
	Offset  int64 `json:"offset"` // from the stream's beginning
	Bytes   int64 `json:"bytes"`
	Segment int   `json:"-"`
	Skip    int64 `json:"-"`
}

// Stage is a step in which a NIC sends to at most one and receives from at most
// one.
type Stage struct {
	Length    int64      `json:"length"` // bytes of its largest transfer
	Transfers []Transfer `json:"transfers"`
}

// Local is a stretch of a message that stays inside a server, or at its GPU, and the stage
// during which it is sent; −1 is before the first.
type Local struct {
	Source, Destination Rank
	Offset, Bytes       int64 // from the message's beginning
	Beside              int
}

// Plan is an exchange in stages. The bytes of a stage move to the NICs during the previous
// stage, and on to their destinations during the next one.
type Plan struct {
	Cluster
	Mode     Mode
	Grain    int64 // the unit to which lengths were rounded up, or the size of a packet, in bytes
	Bound    int64 // Eq. 26: no plan has a smaller length
	Length   int64 // of all stages, bytes per NIC
	Stages   []Stage
	Segments []Segment // by Out and In
	Local    []Local   // by Beside
	// MovesBefore and MovesAfter are the bytes that move between GPUs inside a server, to a
	// NIC and from one, without Local.
	MovesBefore, MovesAfter int64
	// Busiest is how many bytes the busiest GPU sends or receives inside its server, [step]:
	// step 0 is before the stages, step s+1 during stage s, and the last one after them.
	Busiest []int64
	Outlook *Outlook // only from mode Auto
	// Site describes the servers, and Certificate proves that no plan is shorter; both only
	// from PlanSite.
	Site        *Places
	Certificate *Certificate
	// Tokens is what is exchanged, and Returns is set on its way back; both only from PlanTokens.
	Tokens  *Tokens
	Returns bool
}

// home is the rank with the input and output of a rank's GPU: the rank itself if all
// servers are alike.
func (p *Plan) home(r Rank) Rank {
	return p.Site.home(r)
}

// draft is an incomplete plan: segments in any order, and stages whose transfers
// have packets and no offsets yet.
type draft struct {
	c        Cluster
	bound    int64     // Eq. 26
	site     *Places   // nil if all servers are alike
	own      int       // server whose part is planned, or −1 for all
	straight bool      // NICs send only to those of the same number
	most     int       // transfers
	segments []Segment // Bytes and Offset are packets
	lines    []Transfer
	ends     []int   // [stage] end of its transfers in lines
	lengths  []int64 // [stage] if known beforehand
}

// send appends a transfer to the stage being written.
func (d *draft) send(from, to Rank, packets int64) {
	if packets > 0 {
		d.lines = append(d.lines, Transfer{From: from, To: to, Bytes: packets})
	}
}

// next ends the stage being written, and drops it if it is empty. It fails if the plan has
// become too large, or ctx has ended.
func (d *draft) next(ctx context.Context) error {
	last := 0
	if len(d.ends) > 0 {
		last = d.ends[len(d.ends)-1]
	}
	if len(d.lines) > last {
		d.ends = append(d.ends, len(d.lines))
	}
	return d.check(ctx)
}

// check returns an error if the plan has become too large or ctx has ended.
func (d *draft) check(ctx context.Context) error {
	if len(d.lines) > d.most {
		return fmt.Errorf("the plan has more than %d transfers: take a larger grain, or mode %s with a stretch", d.most, Bytes)
	}
	return ctx.Err()
}

// finish turns the draft into a plan of a traffic whose packets have grain bytes.
func (d *draft) finish(t *Traffic, mode Mode, grain int64, m Model) *Plan {
	p := &Plan{Cluster: d.c, Mode: mode, Grain: grain, Bound: d.bound, Site: d.site, Segments: byStream(d.c.Ranks(), d.segments)}
	d.measure(t, p.Segments, grain)
	for at := range p.Segments {
		s := &p.Segments[at]
		s.Bytes, s.Offset = s.bytes(t, grain), s.Offset*grain
		if p.home(s.Source) != p.home(s.Out) {
			p.MovesBefore += s.Bytes
		}
		if t.tokens != nil {
			p.MovesAfter += p.handedOn(t.tokens, s)
		} else if p.home(s.Destination) != p.home(s.In) {
			p.MovesAfter += s.Bytes
		}
	}
	p.Stages = make([]Stage, len(d.ends))
	first := 0
	for i, end := range d.ends {
		s := Stage{Transfers: d.lines[first:end:end]}
		if d.lengths != nil {
			s.Length = d.lengths[i]
		}
		for _, x := range s.Transfers {
			s.Length = max(s.Length, x.Bytes)
		}
		p.Stages[i], first = s, end
		p.Length += s.Length
	}
	from, to := Rank(0), Rank(t.Ranks())
	if d.own >= 0 {
		from, to = Rank(d.own*t.GPUs), Rank((d.own+1)*t.GPUs)
	}
	p.overlap(t, m.orDefault(), from, to)
	return p
}

// measure sets the offsets of the transfers, and turns their packets into bytes. The
// segments are in the order of streams, in packets of grain bytes.
func (d *draft) measure(t *Traffic, segments []Segment, grain int64) {
	streams := make([]struct {
		segment int32 // the current one
		done    int64 // packets of it
		offset  int64 // bytes
	}, d.streams())
	for at := range segments {
		s := &segments[at]
		if at == 0 || s.Out != segments[at-1].Out || s.In != segments[at-1].In {
			streams[d.stream(s.Out, s.In)].segment = int32(at)
		}
	}
	for at := range d.lines {
		x := &d.lines[at]
		stream := &streams[d.stream(x.From, x.To)]
		packets := x.Bytes
		x.Bytes, x.Offset = 0, stream.offset
		x.Segment, x.Skip = int(stream.segment), stream.done*grain
		for packets > 0 {
			s := &segments[stream.segment]
			part := Segment{Source: s.Source, Destination: s.Destination, Offset: s.Offset + stream.done, Bytes: min(packets, s.Bytes-stream.done)}
			x.Bytes += part.bytes(t, grain)
			packets -= part.Bytes
			if stream.done += part.Bytes; stream.done == s.Bytes {
				stream.segment, stream.done = stream.segment+1, 0
			}
		}
		stream.offset += x.Bytes
	}
}

// pairs is the number of pairs of servers in the plan.
func (d *draft) pairs() int {
	if d.own >= 0 {
		return 2 * d.c.Servers
	}
	return d.c.Servers * d.c.Servers
}

// pair is the number of a pair of servers.
func (d *draft) pair(i, j int) int {
	switch d.own {
	case i:
		return j
	case j:
		return d.c.Servers + i
	}
	return i*d.c.Servers + j
}

// streams is the number of pairs of NICs that may have traffic.
func (d *draft) streams() int {
	switch {
	case d.straight:
		return d.pairs() * d.c.GPUs
	case d.own >= 0:
		return 2 * d.c.GPUs * d.c.Ranks()
	}
	return d.c.Ranks() * d.c.Ranks()
}

// stream is the number of the stream from one NIC to another.
func (d *draft) stream(from, to Rank) int {
	if m := d.c.GPUs; d.straight {
		return d.pair(int(from)/m, int(to)/m)*m + int(from)%m
	} else if own := d.own * m; d.own >= 0 && d.c.server(from) == d.own {
		return (int(from)-own)*d.c.Ranks() + int(to)
	} else if d.own >= 0 {
		return (m+int(to)-own)*d.c.Ranks() + int(from)
	}
	return int(from)*d.c.Ranks() + int(to)
}

// bytes is the size of a segment of packets: the last packet of a message may be short.
func (s *Segment) bytes(t *Traffic, grain int64) int64 {
	if grain == 1 {
		return s.Bytes
	}
	return min((s.Offset+s.Bytes)*grain, t.Bytes[int(s.Source)*t.Ranks()+int(s.Destination)]) - s.Offset*grain
}

// byStream sorts segments stably by Out and In.
func byStream(ranks int, segments []Segment) []Segment {
	byIn, byOut := make([]int32, ranks), make([]int32, ranks) // where the next one goes
	for at := range segments {
		byIn[segments[at].In]++
		byOut[segments[at].Out]++
	}
	in, out := int32(0), int32(0)
	for r := range ranks {
		byIn[r], in = in, in+byIn[r]
		byOut[r], out = out, out+byOut[r]
	}
	half := make([]Segment, len(segments))
	for at := range segments {
		place := &byIn[segments[at].In]
		half[*place] = segments[at]
		*place++
	}
	for at := range half {
		place := &byOut[half[at].Out]
		segments[*place] = half[at]
		*place++
	}
	return segments
}

// packets returns the traffic in packets of grain bytes, rounded up.
func (t *Traffic) packets(grain int64) *Traffic {
	if grain == 1 {
		return t
	}
	return &Traffic{Cluster: t.Cluster, Bytes: shares(t.Bytes, grain), Site: t.Site}
}
