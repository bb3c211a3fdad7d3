package gpu

import (
	"context"
	"slices"
)

// paper is the published scheme: each block of a pair of servers is balanced as in
// Sec. IV, or left as it is; its m×m matrix is decomposed into Δ_ij matchings of
// GPUs, the matrix of the Δ_ij into Δ matchings of servers (Eq. 11), and the r-th
// matching of servers that has the pair (i,j) carries the r-th of its block
// (Theorem 4).
func (p *Planner) paper(ctx context.Context, t *Traffic, balanced bool) (*draft, error) {
	n, m := t.Servers, t.GPUs
	d := p.draft(t)
	scale := make([]int64, n*n) // Δ_ij
	blocks := make([]component, n*n)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for j := range n {
			if i == j {
				continue
			}
			first := len(d.segments)
			d.segments = t.cells(d.segments, i, j)
			if balanced {
				d.segments = level(d.segments, first, m)
			}
			var err error
			if blocks[i*n+j], scale[i*n+j], err = p.component(ctx, m, d.segments[first:]); err != nil {
				return nil, err
			}
		}
	}
	w, err := p.decompose(ctx, n, scale)
	if err != nil {
		return nil, err
	}
	for turn, weight := range w.weights {
		if err := d.merge(ctx, w.match[turn*n:(turn+1)*n], weight, blocks); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// component is the remainder of a block: its matchings of GPUs, from the current one on.
type component struct {
	left    []int64 // [GPU][GPU] packets
	weights []int64
	match   []int32 // [matching][GPU]
}

// component decomposes the block of some segments.
func (p *Planner) component(ctx context.Context, m int, segments []Segment) (c component, scale int64, err error) {
	if len(segments) == 0 {
		return component{}, 0, nil
	}
	x := make([]int64, m*m)
	for at := range segments {
		s := &segments[at]
		x[int(s.Out)%m*m+int(s.In)%m] += s.Bytes
	}
	w, err := p.decompose(ctx, m, x)
	return component{left: x, weights: slices.Clone(w.weights), match: slices.Clone(w.match)}, longest(m, x), err
}

// merge schedules weight slots of a matching of servers, in as few stages as the matchings
// of the blocks allow.
func (d *draft) merge(ctx context.Context, match []int32, weight int64, blocks []component) error {
	n, m := d.c.Servers, d.c.GPUs
	for weight > 0 {
		length := weight
		for i, j := range match {
			if b := &blocks[i*n+int(j)]; len(b.weights) > 0 {
				length = min(length, b.weights[0])
			}
		}
		for i, j := range match {
			b := &blocks[i*n+int(j)]
			if len(b.weights) == 0 {
				continue
			}
			for l, k := range b.match[:m] {
				packets := min(b.left[l*m+int(k)], length)
				b.left[l*m+int(k)] -= packets
				d.send(Rank(i*m+l), Rank(int(j)*m+int(k)), packets)
			}
			if b.weights[0] -= length; b.weights[0] == 0 {
				b.weights, b.match = b.weights[1:], b.match[m:]
			}
		}
		if err := d.next(ctx); err != nil {
			return err
		}
		weight -= length
	}
	return nil
}

// cells appends a segment for each message from server i to server j.
func (t *Traffic) cells(segments []Segment, i, j int) []Segment {
	m := t.GPUs
	for l := range m {
		source := Rank(i*m + l)
		for k, v := range t.row(source, j) {
			if v > 0 {
				destination := Rank(j*m + k)
				segments = append(segments, Segment{source, destination, source, destination, 0, v})
			}
		}
	}
	return segments
}

// level balances the block that begins at segment first, as in Sec. IV.C: rows with
// more than B = ⌈W/m⌉ packets give packets of some columns to rows with fewer, by
// column transfers; then columns to columns, by row transfers. Identical transfers are
// made together. Each lowers the imbalance potential by its packets, so the first
// phase makes at most as many as Theorem 5 states, and the second at most the excess
// of the columns, which the first does not change.
func level(segments []Segment, first, m int) []Segment {
	rows, columns := make([]int64, m), make([]int64, m)
	total := int64(0)
	for _, s := range segments[first:] {
		rows[int(s.Source)%m] += s.Bytes
		columns[int(s.Destination)%m] += s.Bytes
		total += s.Bytes
	}
	B := over(total, int64(m))
	segments = transfer(segments, first, m, B, rows, func(s *Segment) *Rank { return &s.Out })
	return transfer(segments, first, m, B, columns, func(s *Segment) *Rank { return &s.In })
}

// transfer moves packets from lines with more than B to lines with fewer; line is a
// segment's row or column.
func transfer(segments []Segment, first, m int, B int64, sums []int64, line func(*Segment) *Rank) []Segment {
	to := 0
	for at := first; at < len(segments); at++ {
		for {
			s := &segments[at]
			from := int(*line(s)) % m
			if sums[from] <= B {
				break
			}
			for sums[to] >= B {
				to++
			}
			packets := min(s.Bytes, sums[from]-B, B-sums[to])
			sums[from] -= packets
			sums[to] += packets
			part := *s
			part.Bytes = packets
			*line(&part) += Rank(to - from)
			if packets == s.Bytes {
				segments[at] = part
				break
			}
			s.Offset += packets
			s.Bytes -= packets
			segments = append(segments, part)
		}
	}
	return segments
}
