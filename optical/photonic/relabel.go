package photonic

import "context"

// relabelSweeps is the most sweeps over all pairs of positions.
const relabelSweeps = 8

// placing is a local search for the placement of GPUs by swaps.
type placing struct {
	in     *Instance
	group  *group  // of the positions
	label  []int32 // [position] GPU
	weight []int64 // [class] hops
	top    []int64 // [class] the largest message, unless stale
	stale  bool
}

// relabel looks for two placements of the GPUs of a plan of rounds: together puts large
// messages in the same rounds (paper, section 4.4), to lower the sum of each round's hops
// times its largest message; short gives large messages short paths, to lower the sum of
// all messages times their hops.
func relabel(ctx context.Context, in *Instance, p *Plan) (together, short []int32, err error) {
	weight := make([]int64, p.GPUs)
	for _, r := range p.Rounds {
		for _, path := range r.Paths {
			for _, s := range path.Switches {
				if s != Wait {
					weight[path.Class]++
				}
			}
		}
	}
	g := cyclic(p.GPUs)
	if together, err = place(ctx, in, g, weight, (*placing).groupDelta); err != nil {
		return nil, nil, err
	}
	short, err = place(ctx, in, g, weight, (*placing).wayDelta)
	return together, short, err
}

// place swaps GPUs while a swap lowers the sum whose change delta computes, and returns
// the GPU at each position.
func place(ctx context.Context, in *Instance, g *group, weight []int64, delta func(s *placing, a, b int32) int64) ([]int32, error) {
	n := int32(in.GPUs)
	label, _ := labels(in.GPUs, nil)
	s := &placing{in, g, label, weight, make([]int64, n), true}
	for sweep, again := 0, true; again && sweep < relabelSweeps; sweep++ {
		again = false
		for a := range n {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			for b := range a {
				if delta(s, a, b) < 0 {
					s.swap(a, b)
					s.stale, again = true, true
				}
			}
		}
	}
	return s.label, nil
}

func (s *placing) swap(a, b int32) { s.label[a], s.label[b] = s.label[b], s.label[a] }

// bytes is the size of the message from one position to another.
func (s *placing) bytes(a, b int32) int64 { return s.in.size(int(s.label[a]), int(s.label[b])) }

// largest is the largest message of a class.
func (s *placing) largest(x int32) int64 {
	top := int64(0)
	for a := range int32(len(s.label)) {
		top = max(top, s.bytes(a, s.group.mul(a, x)))
	}
	return top
}

// groupDelta is the change by a swap in the sum of hops times the largest message of each
// class.
func (s *placing) groupDelta(a, b int32) int64 {
	n, sum := int32(len(s.label)), int64(0)
	if s.stale {
		for x := range n {
			s.top[x] = s.largest(x)
		}
		s.stale = false
	}
	touched := func(x int32) int64 { // the largest of the messages that change
		back := s.group.inverse[x]
		return max(s.bytes(a, s.group.mul(a, x)), s.bytes(b, s.group.mul(b, x)), s.bytes(s.group.mul(a, back), a), s.bytes(s.group.mul(b, back), b))
	}
	var held [MaxVaried]bool // the largest of the class may go
	for x := int32(1); x < n; x++ {
		held[x] = touched(x) == s.top[x]
	}
	s.swap(a, b)
	for x := int32(1); x < n; x++ {
		now := s.top[x]
		if held[x] {
			now = s.largest(x)
		} else {
			now = max(now, touched(x))
		}
		sum += s.weight[x] * (now - s.top[x])
	}
	s.swap(a, b)
	return sum
}

// wayDelta is the change by a swap in the sum of messages times hops.
func (s *placing) wayDelta(a, b int32) int64 {
	sum := int64(0)
	class := func(a, b int32) int64 { return s.weight[s.group.class(a, b)] }
	for c := range int32(len(s.label)) {
		if c == a || c == b {
			continue
		}
		sum += (s.bytes(b, c)-s.bytes(a, c))*(class(a, c)-class(b, c)) + (s.bytes(c, b)-s.bytes(c, a))*(class(c, a)-class(c, b))
	}
	return sum + (s.bytes(b, a)-s.bytes(a, b))*(class(a, b)-class(b, a))
}
