package liquid

import (
	"context"
	"slices"
)

// Dsatur schedules greedily (Brélaz; listed in the paper's annex): next comes the
// transfer that is kept out of the most steps by those it congests with, of
// equals the one that congests with the most that have no step yet, of these the
// one that congests with the most, of these the first. It takes the first step
// with room. Slower transfers come before faster ones. It returns nil when the
// context ends first.
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
	whole         []int32 // [transfer] those it congests with
	degree        []int32 // [transfer] those it congests with that have no step
	steps         []int32 // [transfer] steps that it is kept out of
	before, after []Transfer
	head          []Transfer // [class·width+saturation] first of the list, −1
	width         int
	most          []int // [class] no list above it has a transfer
	class         int   // at hand: the slowest with a transfer left
}

// newSaturation lists all transfers. It returns nil when the context ends first.
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
	clear(d.near.mark) // every transfer will be asked for once more
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

// list is where the transfers of x's class and saturation begin.
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

// next is the transfer to colour; there must be one.
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

// precedes tells whether x comes before y where both are kept out of as many
// steps.
func (d *saturation) precedes(x, y Transfer) bool {
	switch {
	case d.degree[x] != d.degree[y]:
		return d.degree[x] > d.degree[y]
	case d.whole[x] != d.whole[y]:
		return d.whole[x] > d.whole[y]
	}
	return x < y
}

// colour puts x into a step and tells those that congest with it.
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
