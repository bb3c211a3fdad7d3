package liquid

import (
	"context"
	"slices"
)

// Dsatur schedules greedily (Brélaz; listed in the paper's annex). It next picks the
// transfer of largest saturation, the number of steps that its neighbours in the conflict
// graph block; ties are broken by the most neighbours without a step, then by the most
// neighbours, then by the lowest number. The transfer takes the first step with room.
// Slower transfers come before faster ones. Dsatur returns nil if the context ends first.
func Dsatur(ctx context.Context, t *Traffic) Schedule {
	if ctx.Err() != nil {
		return nil
	}
	b := newBoard(t, t.Duration()+t.Duration()/4+8)
	d := newSaturation(ctx, t, b)
	if d == nil {
		return nil
	}
	for range t.Len() {
		if ctx.Err() != nil {
			return nil
		}
		x := d.next()
		step := b.firstFree(x)
		if step < 0 {
			step = int32(b.k)
			b.addStep(t.class[x])
		}
		d.colour(x, step)
	}
	return b.schedule()
}

// saturation keeps the transfers without a step in lists of equal saturation.
type saturation struct {
	t             *Traffic
	b             *board
	near          *degrees
	whole         []int32 // [transfer] neighbours
	degree        []int32 // [transfer] neighbours without a step
	steps         []int32 // [transfer] saturation
	before, after []Transfer
	head          []Transfer // [class·width+saturation] first of the list, or −1
	width         int
	most          []int // [class] no list above it has a transfer
	class         int   // the slowest with a transfer left
}

// newSaturation lists all transfers. It returns nil if the context ends first.
func newSaturation(ctx context.Context, t *Traffic, b *board) *saturation {
	d := &saturation{t: t, b: b, near: newDegrees(t)}
	d.degree, d.steps = make([]int32, t.Len()), make([]int32, t.Len())
	d.before, d.after = make([]Transfer, t.Len()), make([]Transfer, t.Len())
	for x := range t.Len() {
		if x&15 == 0 && ctx.Err() != nil {
			return nil
		}
		d.degree[x] = int32(d.near.of(Transfer(x)))
		d.width = max(d.width, int(d.degree[x])+1)
	}
	clear(d.near.mark) // colour asks once more for every transfer
	d.whole = slices.Clone(d.degree)
	d.head, d.most = make([]Transfer, len(t.rates)*d.width), make([]int, len(t.rates))
	for i := range d.head {
		d.head[i] = -1
	}
	for x := t.Len() - 1; x >= 0; x-- {
		d.insert(Transfer(x))
	}
	return d
}

// list returns the head of the list of x's class and saturation.
func (d *saturation) list(x Transfer) *Transfer {
	return &d.head[int(d.t.class[x])*d.width+int(d.steps[x])]
}

func (d *saturation) insert(x Transfer) {
	head := d.list(x)
	d.before[x], d.after[x] = -1, *head
	if *head >= 0 {
		d.before[*head] = x
	}
	*head = x
	c := d.t.class[x]
	d.most[c] = max(d.most[c], int(d.steps[x]))
}

func (d *saturation) unlink(x Transfer) {
	if d.before[x] >= 0 {
		d.after[d.before[x]] = d.after[x]
	} else {
		*d.list(x) = d.after[x]
	}
	if d.after[x] >= 0 {
		d.before[d.after[x]] = d.before[x]
	}
}

// next returns the transfer to colour; one must be left.
func (d *saturation) next() Transfer {
	for {
		for ; d.most[d.class] >= 0; d.most[d.class]-- {
			best := Transfer(-1)
			for x := d.head[d.class*d.width+d.most[d.class]]; x >= 0; x = d.after[x] {
				if best < 0 || d.precedes(x, best) {
					best = x
				}
			}
			if best >= 0 {
				return best
			}
		}
		d.class++
	}
}

// precedes reports whether x comes before y if both have the same saturation.
func (d *saturation) precedes(x, y Transfer) bool {
	switch {
	case d.degree[x] != d.degree[y]:
		return d.degree[x] > d.degree[y]
	case d.whole[x] != d.whole[y]:
		return d.whole[x] > d.whole[y]
	}
	return x < y
}

// colour puts x into a step and updates its neighbours.
func (d *saturation) colour(x Transfer, step int32) {
	d.unlink(x)
	for _, y := range d.near.neighbours(x) {
		if d.b.step[y] >= 0 {
			continue
		}
		d.degree[y]--
		if !d.b.blocked(y, step) {
			d.unlink(y)
			d.steps[y]++
			d.insert(y)
		}
	}
	d.b.place(x, step)
}
