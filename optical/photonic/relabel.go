package photonic

import "slices"

// relabelSweeps is how often all pairs of positions are tried.
const relabelSweeps = 8

// placing is a search for places of GPUs by swaps.
type placing struct {
	in     *Instance
	label  []int32 // [position] GPU
	weight []int64 // [class] hops
}

// relabel looks for places of the GPUs of a plan of rounds: together, by which
// large messages are in the same rounds (paper, section 4.4), so that the sum of
// each round's hops times its largest message falls; and short, by which large
// messages have short ways, so that the sum of all messages times their hops does.
// Both swap two GPUs as long as that helps.
func relabel(in *Instance, p *Plan) (together, short []int32) {
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
	find := func(delta func(*placing, int, int) int64) []int32 {
		s := &placing{in, make([]int32, p.GPUs), weight}
		for i := range s.label {
			s.label[i] = int32(i)
		}
		for sweep, again := 0, true; again && sweep < relabelSweeps; sweep++ {
			again = false
			for a := range s.label {
				for b := range a {
					if delta(s, a, b) < 0 {
						s.swap(a, b)
						again = true
					}
				}
			}
		}
		return s.label
	}
	top := make([]int64, p.GPUs)
	full := true
	together = find(func(s *placing, a, b int) int64 {
		if full {
			s.largest(top)
			full = false
		}
		d := s.groupDelta(top, a, b)
		full = d < 0
		return d
	})
	return together, find((*placing).wayDelta)
}

func (s *placing) swap(a, b int) { s.label[a], s.label[b] = s.label[b], s.label[a] }

// bytes is the message from one position to another.
func (s *placing) bytes(a, b int) int64 { return s.in.size(int(s.label[a]), int(s.label[b])) }

// largest fills top with the largest message of each class.
func (s *placing) largest(top []int64) {
	n := len(s.label)
	for x := range top {
		top[x] = 0
		for a := range n {
			top[x] = max(top[x], s.bytes(a, (a+x)%n))
		}
	}
}

// groupDelta is by how much a swap changes the sum of hops times the largest
// message of each class.
func (s *placing) groupDelta(top []int64, a, b int) int64 {
	n, sum := len(s.label), int64(0)
	ends := [4]int64{}
	touched := func(x int) []int64 {
		ends = [4]int64{s.bytes(a, (a+x)%n), s.bytes(b, (b+x)%n), s.bytes((a-x+n)%n, a), s.bytes((b-x+n)%n, b)}
		return ends[:]
	}
	var held [MaxVaried]bool // the largest of the class may go
	for x := 1; x < n; x++ {
		held[x] = slices.Max(touched(x)) == top[x]
	}
	s.swap(a, b)
	for x := 1; x < n; x++ {
		now := slices.Max(touched(x))
		if held[x] {
			for p := range n {
				now = max(now, s.bytes(p, (p+x)%n))
			}
		}
		if !held[x] {
			now = max(now, top[x])
		}
		sum += s.weight[x] * (now - top[x])
	}
	s.swap(a, b)
	return sum
}

// wayDelta is by how much a swap changes the sum of messages times hops.
func (s *placing) wayDelta(a, b int) int64 {
	n, sum := len(s.label), int64(0)
	for c := range n {
		if c == a || c == b {
			continue
		}
		out, in := s.weight[(c-a+n)%n]-s.weight[(c-b+n)%n], s.weight[(a-c+n)%n]-s.weight[(b-c+n)%n]
		sum += (s.bytes(b, c)-s.bytes(a, c))*out + (s.bytes(c, b)-s.bytes(c, a))*in
	}
	there, back := s.weight[(b-a+n)%n], s.weight[(a-b+n)%n]
	return sum + (s.bytes(b, a)-s.bytes(a, b))*(there-back)
}
