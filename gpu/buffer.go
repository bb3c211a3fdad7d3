package gpu

import (
	"cmp"
	"fmt"
	"slices"
)

// span is a stretch of a message at an offset of a buffer.
type span struct {
	at                  int64
	source, destination Rank
	offset, bytes       int64 // of the message
}

// buffer is memory of a rank in the replay.
type buffer struct {
	size  int64
	top   int64   // end of the bytes written so far
	holds []span  // by offset
	taken []Piece // read in this step or, for an input, in any
	put   []span  // written in this step or, for an output, in any
}

// get reads a piece of the buffer and appends its spans to a list.
func (b *buffer) get(x Piece, list []span) ([]span, error) {
	if x.Bytes <= 0 || x.Offset < 0 || x.Offset > b.size || x.Bytes > b.size-x.Offset {
		return nil, fmt.Errorf("%d bytes at %d are not in a buffer of %d", x.Bytes, x.Offset, b.size)
	}
	i, found := slices.BinarySearchFunc(b.holds, x.Offset, func(s span, at int64) int { return cmp.Compare(s.at, at) })
	if !found {
		i--
	}
	for at, end := x.Offset, x.Offset+x.Bytes; at < end; i++ {
		if i < 0 || i == len(b.holds) || b.holds[i].at > at || b.holds[i].at+b.holds[i].bytes <= at {
			return nil, fmt.Errorf("byte %d of the buffer holds nothing then", at)
		}
		s := b.holds[i]
		skip := at - s.at
		s.offset, s.bytes = s.offset+skip, min(s.bytes-skip, end-at)
		at += s.bytes
		list = append(list, s)
	}
	b.taken = append(b.taken, x)
	return list, nil
}

// write writes spans from an offset on.
func (b *buffer) write(at int64, list []span) error {
	for _, s := range list {
		if at < 0 || s.bytes > b.size-at {
			return fmt.Errorf("%d bytes at %d are not in a buffer of %d", s.bytes, at, b.size)
		}
		s.at = at
		b.put = append(b.put, s)
		at += s.bytes
	}
	b.top = max(b.top, at)
	return nil
}

// turn ends a step: no byte may have been read twice or written twice in it, or written
// while it held something. It drops the bytes that were read, and adds those that were written.
func (b *buffer) turn() error {
	if len(b.taken) == 0 && len(b.put) == 0 {
		return nil
	}
	sortTaken(b.taken)
	for i := 1; i < len(b.taken); i++ {
		if x := b.taken[i-1]; x.Offset+x.Bytes > b.taken[i].Offset {
			return fmt.Errorf("byte %d is read twice", b.taken[i].Offset)
		}
	}
	sortPut(b.put)
	next := 0
	for i, s := range b.put {
		if i > 0 && b.put[i-1].at+b.put[i-1].bytes > s.at {
			return fmt.Errorf("byte %d is written twice", s.at)
		}
		for next < len(b.holds) && b.holds[next].at+b.holds[next].bytes <= s.at {
			next++
		}
		if next < len(b.holds) && b.holds[next].at < s.at+s.bytes {
			return fmt.Errorf("byte %d is overwritten before it has been sent on", max(s.at, b.holds[next].at))
		}
	}
	b.holds = merge(remove(b.holds, b.taken), b.put)
	b.taken, b.put = b.taken[:0], b.put[:0]
	return nil
}

// remove cuts pieces out of spans, both sorted by offset.
func remove(holds []span, taken []Piece) []span {
	var left []span
	for _, s := range holds {
		for len(taken) > 0 && taken[0].Offset < s.at+s.bytes {
			x := taken[0]
			if x.Offset > s.at {
				head := s
				head.bytes = x.Offset - s.at
				left = append(left, head)
			}
			cut := min(s.bytes, x.Offset+x.Bytes-s.at)
			s.at, s.offset, s.bytes = s.at+cut, s.offset+cut, s.bytes-cut
			if s.bytes == 0 {
				break
			}
			taken = taken[1:]
		}
		if s.bytes > 0 {
			left = append(left, s)
		}
	}
	return left
}

// merge merges spans by offset.
func merge(a, b []span) []span {
	list := make([]span, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].at < b[0].at {
			list, a = append(list, a[0]), a[1:]
		} else {
			list, b = append(list, b[0]), b[1:]
		}
	}
	return append(append(list, a...), b...)
}

// used checks that every byte of an input has been read exactly once.
func (b *buffer) used() error {
	sortTaken(b.taken)
	end := int64(0)
	for _, x := range b.taken {
		if x.Offset != end {
			return fmt.Errorf("reads end at byte %d and go on at %d", end, x.Offset)
		}
		end += x.Bytes
	}
	if end != b.size {
		return fmt.Errorf("%d bytes are read of %d", end, b.size)
	}
	return nil
}

// full checks that every byte of an output has been written exactly once.
func (b *buffer) full() error {
	sortPut(b.put)
	end := int64(0)
	for _, s := range b.put {
		if s.at != end {
			return fmt.Errorf("writes end at byte %d and go on at %d", end, s.at)
		}
		end += s.bytes
	}
	if end != b.size {
		return fmt.Errorf("%d bytes are written of %d", end, b.size)
	}
	return nil
}

// empty checks that all data in a NIC's buffer has been sent on, and that the buffer has been
// used to its end.
func (b *buffer) empty() error {
	if b.top != b.size {
		return fmt.Errorf("%d bytes are used of %d", b.top, b.size)
	}
	if len(b.holds) > 0 {
		s := b.holds[0]
		return fmt.Errorf("byte %d of the message from rank %d to rank %d is left there", s.offset, s.source, s.destination)
	}
	return nil
}

func sortTaken(list []Piece) {
	slices.SortFunc(list, func(x, y Piece) int { return cmp.Compare(x.Offset, y.Offset) })
}

func sortPut(list []span) {
	if by := func(x, y span) int { return cmp.Compare(x.at, y.at) }; !slices.IsSortedFunc(list, by) {
		slices.SortFunc(list, by)
	}
}

// cut divides spans after some bytes.
func cut(list []span, bytes int64) (head, tail []span, ok bool) {
	if bytes <= 0 {
		return nil, nil, false
	}
	for i := range list {
		if s := list[i]; bytes < s.bytes {
			head = append(head, list[:i]...)
			first := s
			first.bytes = bytes
			s.offset, s.bytes = s.offset+bytes, s.bytes-bytes
			list[i] = s
			return append(head, first), list[i:], true
		} else if bytes -= s.bytes; bytes == 0 {
			return list[:i+1], list[i+1:], true
		}
	}
	return nil, nil, false
}
