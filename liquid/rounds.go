package liquid

import (
	"context"
	"math/rand/v2"
	"slices"
)

// RoundRobin returns the schedule that ignores the network: in phase p node i, in the
// order of their numbers, sends to node i+p modulo their count, and a phase whose
// transfers congest takes as many steps as Dsatur needs for it (section 2 of the
// paper). It returns nil if the context ends first.
func RoundRobin(ctx context.Context, t *Traffic) Schedule {
	phase := t.phases()
	return t.inPhases(ctx, int(slices.Max(append(phase, 0)))+1, func(x Transfer) int { return int(phase[x]) })
}

// phases returns the phase of each transfer in round-robin.
func (t *Traffic) phases() []int32 {
	var nodes []int32
	for _, p := range t.pairs {
		nodes = append(nodes, p.Src, p.Dst)
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	phase := make([]int32, t.Len())
	for x, p := range t.pairs {
		src, _ := slices.BinarySearch(nodes, p.Src)
		dst, _ := slices.BinarySearch(nodes, p.Dst)
		phase[x] = int32((dst - src + len(nodes)) % len(nodes))
	}
	return phase
}

// Random returns a schedule that considers only the ends of transfers: it shuffles
// them, and each goes into the first phase in which neither its source sends nor its
// destination receives; a phase takes as many steps as Dsatur needs for it. It returns
// nil if the context ends first.
func Random(ctx context.Context, t *Traffic, seed uint64) Schedule {
	order := rand.New(rand.NewPCG(seed, 2)).Perm(t.Len())
	phase := make([]int, t.Len())
	phases := 0
	sends, receives := make(map[int32][]uint64), make(map[int32][]uint64)
	for n, x := range order {
		if n&1023 == 0 && ctx.Err() != nil {
			return nil
		}
		p := t.pairs[x]
		a, b := sends[p.Src], receives[p.Dst]
		i := 0
		for hasBit(a, i) || hasBit(b, i) {
			i++
		}
		sends[p.Src], receives[p.Dst] = withBit(a, i), withBit(b, i)
		phase[x] = i
		phases = max(phases, i+1)
	}
	return t.inPhases(ctx, phases, func(x Transfer) int { return phase[x] })
}

func hasBit(set []uint64, i int) bool { return i>>6 < len(set) && set[i>>6]>>(i&63)&1 != 0 }

func withBit(set []uint64, i int) []uint64 {
	for i>>6 >= len(set) {
		set = append(set, 0)
	}
	set[i>>6] |= 1 << (i & 63)
	return set
}

// inPhases schedules the transfers phase by phase, each in as many steps as Dsatur
// needs.
func (t *Traffic) inPhases(ctx context.Context, phases int, phase func(Transfer) int) Schedule {
	of := make([][]Transfer, phases)
	for x := range t.Len() {
		p := phase(Transfer(x))
		of[p] = append(of[p], Transfer(x))
	}
	s := Schedule{}
	for _, members := range of {
		steps := Dsatur(ctx, t.only(members))
		if steps == nil {
			return nil
		}
		s = append(s, steps.of(members)...)
	}
	return s
}

// of renumbers the transfers of a schedule of only(members) as in the whole traffic.
func (s Schedule) of(members []Transfer) Schedule {
	for _, step := range s {
		for i, x := range step {
			step[i] = members[x]
		}
	}
	return s
}

// only returns the traffic of some transfers, in their order.
func (t *Traffic) only(members []Transfer) *Traffic {
	s := &Traffic{links: t.links, first: make([]int32, 1, len(members)+1), rates: t.rates}
	for _, x := range members {
		s.pairs, s.class = append(s.pairs, t.pairs[x]), append(s.class, t.class[x])
		s.path = append(s.path, t.Path(x)...)
		s.first = append(s.first, int32(len(s.path)))
	}
	s.index()
	return s
}
