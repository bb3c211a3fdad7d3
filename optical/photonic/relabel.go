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
}

// place swaps GPUs while a swap lowers the sum of all messages times their fewest hops over
// a sequence of topologies, and returns the GPU at each position.
func place(ctx context.Context, in *Instance, g *group, sets [][]int32) ([]int32, error) {
	n := int32(in.GPUs)
	label, _ := labels(in.GPUs, nil)
	s := &placing{in, g, label, make([]int64, n)}
	hops := none(in.GPUs)
	for _, set := range sets {
		g.reach(hops, set, false)
	}
	for x, h := range hops {
		s.weight[x] = int64(h)
	}
	for sweep, again := 0, true; again && sweep < relabelSweeps; sweep++ {
		again = false
		for a := range n {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			for b := range a {
				if s.delta(a, b) < 0 {
					s.swap(a, b)
					again = true
				}
			}
		}
	}
	return s.label, nil
}

func (s *placing) swap(a, b int32) { s.label[a], s.label[b] = s.label[b], s.label[a] }

// bytes is the size of the message from one position to another.
func (s *placing) bytes(a, b int32) int64 { return s.in.size(int(s.label[a]), int(s.label[b])) }

// delta is the change by a swap in the sum of messages times hops.
func (s *placing) delta(a, b int32) int64 {
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
