package gpu

import "slices"

// overlap schedules the moves inside servers during the stages: to the NICs during the previous
// stage, from them during the next stage, and bytes that stay inside servers in any stage with
// room. It fills in Local and Busiest, for the ranks from first to last.
func (p *Plan) overlap(t *Traffic, m Model, first, last Rank) {
	l := newLayer(t, first, last)
	steps := len(p.Stages) + 2
	p.Busiest = make([]int64, steps)
	for step := range steps {
		// Stage number step moves to its NICs in this step, and from NICs two steps later.
		if step < len(p.Stages) {
			l.add(p, step)
		}
		room := int64(0)
		if step > 0 && step <= len(p.Stages) {
			room = m.during(p.Stages[step-1].Length)
		}
		if step == min(steps-2, len(p.Stages)) {
			room = maxTotal // for the remaining bytes
		}
		p.Local = l.fill(p.Local, step, room)
		p.Busiest[step] = l.end(step)
	}
}

// during returns how many bytes a GPU can move inside its server during a stage.
func (m Model) during(length int64) int64 {
	return int64(min(float64(length)*m.B1/m.B2, maxTotal))
}

// layer counts the bytes that the GPUs from rank first up to last send and receive
// inside their servers, step by step.
type layer struct {
	t           *Traffic
	first, last Rank
	loads       [3][]int64 // [step mod 3] of the GPUs: sent at 2r, received at 2r+1
	waiting     []Local    // bytes that stay inside servers and have no step yet
}

func newLayer(t *Traffic, first, last Rank) *layer {
	l := &layer{t: t, first: first, last: last, waiting: t.inside(first, last)}
	for at := range l.loads {
		l.loads[at] = make([]int64, 2*(last-first))
	}
	return l
}

// add adds the moves of a stage's transfers: in the step of the stage's number, and in
// the step after the stage.
func (l *layer) add(p *Plan, stage int) {
	before, after := l.loads[stage%3], l.loads[(stage+2)%3]
	for at := range p.Stages[stage].Transfers {
		x := &p.Stages[stage].Transfers[at]
		for c := newCursor(p.Segments, x); c.next(); {
			l.move(before, p.home(c.Source), p.home(c.Out), c.Bytes)
			if l.t.tokens == nil {
				l.move(after, p.home(c.In), p.home(c.Destination), c.Bytes)
				continue
			}
			first := c.In - c.In%Rank(p.GPUs)
			for k := range p.GPUs {
				l.move(after, p.home(c.In), first+Rank(k), l.t.tokens.handed(&c.Segment, k))
			}
		}
	}
}

func (l *layer) move(loads []int64, from, to Rank, bytes int64) {
	if from != to && from >= l.first && from < l.last {
		loads[2*(from-l.first)] += bytes
		loads[2*(to-l.first)+1] += bytes
	}
}

// fill puts bytes that stay inside servers into a step in which each GPU has room to send
// and receive so many bytes, and appends them to a list.
func (l *layer) fill(list []Local, step int, room int64) []Local {
	loads := l.loads[step%3]
	left := l.waiting[:0]
	for _, x := range l.waiting {
		out, in := &loads[2*(x.Source-l.first)], &loads[2*(x.Destination-l.first)+1]
		now := x
		now.Beside = step - 1
		if x.Source != x.Destination {
			now.Bytes = max(0, min(x.Bytes, room-*out, room-*in))
			*out += now.Bytes
			*in += now.Bytes
		} else if room == 0 {
			now.Bytes = 0 // a copy, which waits for the first stage
		}
		if now.Bytes > 0 {
			list = append(list, now)
		}
		x.Offset += now.Bytes
		if x.Bytes -= now.Bytes; x.Bytes > 0 {
			left = append(left, x)
		}
	}
	l.waiting = left
	return list
}

// end ends a step, and returns the bytes that the busiest GPU sends or receives in it.
func (l *layer) end(step int) int64 {
	loads := l.loads[step%3]
	most := slices.Max(loads)
	clear(loads)
	return most
}

// inside lists the messages that stay in the servers of some ranks: first those of GPUs to
// themselves, then to the next one of their server, and so on, so that each GPU sends to
// one and receives from one.
func (t *Traffic) inside(first, last Rank) []Local {
	var list []Local
	m := t.GPUs
	for shift := range m {
		for source := first; source < last; source++ {
			home := source - source%Rank(m)
			destination := home + Rank((int(source-home)+shift)%m)
			if v := t.Bytes[int(source)*t.Ranks()+int(destination)]; v > 0 {
				list = append(list, Local{Source: source, Destination: destination, Bytes: v})
			}
		}
	}
	return list
}

// cursor iterates over the stretches of messages that a transfer carries.
type cursor struct {
	Segment // the current stretch
	list    []Segment
	skip    int64
	left    int64
}

func newCursor(segments []Segment, x *Transfer) cursor {
	return cursor{list: segments[x.Segment:], skip: x.Skip, left: x.Bytes}
}

// next advances to the next stretch, and reports whether there is one.
func (c *cursor) next() bool {
	if c.left == 0 {
		return false
	}
	c.Segment, c.list = c.list[0], c.list[1:]
	c.Offset += c.skip
	c.Bytes = min(c.Bytes-c.skip, c.left)
	c.left -= c.Bytes
	c.skip = 0
	return true
}
