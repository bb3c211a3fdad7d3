package gpu

import (
	"context"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// group is some NICs of a server that send together: NICs of a group of another server receive
// from them, each from one.
type group struct {
	server int
	nics   []Rank
	leaf   int // of all NICs, or −1
}

// servers is the traffic between servers, and its division among groups of NICs.
type servers struct {
	t       *Traffic
	pairs   []int64   // W, [source][destination]
	rails   [][]int64 // the same, [rail][source][destination]; one rail if NICs reach all others
	out, in []int64   // [rank] bytes to and from other servers
	nics    []int64   // [rank] working NICs of the GPU
	each    []int64   // [server] working NICs
	bound   int64
	proof   *Certificate // of the bound of a site

	groups  []group
	first   []int   // [server] its first group
	load    []int64 // [group][group] bytes
	share   []int64 // M, [group][group] bytes of the first NIC
	limits  []limit
	rounded []int64         // M, rounded up to a grain, with rows and columns for the limits
	size    int             // of its rows
	order   int             // of NICs in decompositions, below orders
	skips   []map[skip]bool // [stage] streams that it leaves out; nil if lanes do not matter
}

func newServers(ctx context.Context, t *Traffic) (*servers, error) {
	n, m, ranks := t.Servers, t.GPUs, t.Ranks()
	s := &servers{t: t, pairs: make([]int64, n*n), out: make([]int64, ranks), in: make([]int64, ranks), nics: make([]int64, ranks), each: make([]int64, n)}
	for source := range ranks {
		if t.Site.works(source) {
			s.nics[t.Site.home(Rank(source))]++
			s.each[source/m]++
		}
		i, row := source/m, t.Bytes[source*ranks:][:ranks]
		for j := range n {
			if i == j {
				continue
			}
			sum := int64(0)
			in := s.in[j*m:][:m]
			for k, v := range row[j*m:][:m] {
				sum += v
				in[k] += v
			}
			s.pairs[i*n+j] += sum
			s.out[source] += sum
		}
	}
	s.rails = [][]int64{s.pairs}
	if t.Site == nil {
		s.bound = over(longest(n, s.pairs), int64(m))
		return s, nil
	}
	return s, s.divideRails(ctx)
}

// divideRails finds the bound of a site and, if NICs reach only those of their rail, divides the
// traffic over rails.
func (s *servers) divideRails(ctx context.Context) error {
	bound, proof, err := s.siteBound()
	if err != nil {
		return err
	}
	if s.t.Site.Rails {
		f, err := newSplit(ctx, s.t.Site, s.pairs, bound)
		if err != nil {
			return err
		}
		divided, proved, prices := f.divide(bound)
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.rails = divided; proved > bound {
			bound, proof = proved, Certificate{Prices: prices}
		}
	}
	s.bound, s.proof = bound, &proof
	return nil
}

// alike reports whether all servers have as many working NICs, which reach all others at a time.
func (s *servers) alike() bool {
	return len(s.rails) == 1 && slices.Min(s.each) == slices.Max(s.each) && (s.t.Site == nil || s.t.Site.Lanes == nil)
}

// divide divides the working NICs of each server, on each rail, into up to count groups, as equal
// as possible, and the bytes between servers among the groups. 0 stands for one if servers are
// alike, and otherwise for a group for each NIC, with which the length is the bound.
func (s *servers) divide(count int) {
	if count == 0 && s.alike() {
		count = 1
	} else if count == 0 {
		count = s.t.GPUs
	}
	on := make([][]int, len(s.rails)*s.t.Servers) // [rail][server] its groups
	s.groups, s.first = s.groups[:0], make([]int, s.t.Servers+1)
	nics := make([][]Rank, len(s.rails))
	for i := range s.t.Servers {
		for r := range nics {
			nics[r] = nil
		}
		for r := i * s.t.GPUs; r < (i+1)*s.t.GPUs; r++ {
			if s.t.Site.works(r) {
				rail := s.t.Site.rail(r)
				nics[rail] = append(nics[rail], Rank(r))
			}
		}
		for rail, list := range nics {
			for parts := min(count, len(list)); parts > 0; parts-- {
				width := over(int64(len(list)), int64(parts))
				on[rail*s.t.Servers+i] = append(on[rail*s.t.Servers+i], len(s.groups))
				s.groups = append(s.groups, group{i, list[:width], s.t.Site.leaf(list[:width])})
				list = list[width:]
			}
		}
		s.first[i+1] = len(s.groups)
	}
	s.limits = s.limited()
	s.load = make([]int64, len(s.groups)*len(s.groups))
	for rail, pairs := range s.rails {
		s.spread(pairs, on[rail*s.t.Servers:][:s.t.Servers])
	}
	s.share = s.load
	if s.t.GPUs > 1 {
		s.share = make([]int64, len(s.load))
		for at, v := range s.load {
			if v > 0 {
				s.share[at] = over(v, int64(s.width(at)))
			}
		}
	}
}

// width is the number of NICs of two groups, by their place in load, that can follow together: no
// more than lanes that are up at both their leaves.
func (s *servers) width(at int) int {
	a, b := &s.groups[at/len(s.groups)], &s.groups[at%len(s.groups)]
	width := min(len(a.nics), len(b.nics))
	if a.leaf >= 0 && b.leaf >= 0 && a.leaf != b.leaf {
		width = max(1, min(width, s.t.Site.Lanes.common(a.leaf, b.leaf)))
	}
	return width
}

// spread spreads the traffic between servers over groups, [server], and fills one group after
// another: every NIC sends and receives an equal part, and groups have few partners.
func (s *servers) spread(pairs []int64, on [][]int) {
	n := s.t.Servers
	sends, receives := make([]filler, n), make([]filler, n)
	out, in, _ := bipartite.Sums(n, pairs)
	for i := range n {
		sends[i], receives[i] = s.filler(on[i], out[i]), s.filler(on[i], in[i])
		if len(s.limits) > 0 {
			sends[i].full, receives[i].full = s.full(i, out), s.full(i, in)
		}
	}
	for shift := 1; shift < n; shift++ {
		for i := range n {
			j := (i + shift) % n
			for left := pairs[i*n+j]; left > 0; {
				from, to := &sends[i], &receives[j]
				bytes := min(left, from.room(), to.room())
				s.load[from.list[from.at]*len(s.groups)+to.list[to.at]] += bytes
				from.fill(bytes)
				to.fill(bytes)
				left -= bytes
			}
		}
	}
}

// filler fills groups of NICs one after another with equal shares for each NIC.
type filler struct {
	list   []int
	widths []int64
	at     int
	total  int64
	full   int64 // bytes of a NIC before the next one gets some, or 0 for equal shares
	nics   int64
	before int64 // NICs of the groups that are full
	used   int64 // bytes of the current group
}

func (s *servers) filler(list []int, total int64) filler {
	f := filler{list: list, widths: make([]int64, len(list)), total: total}
	for at, g := range list {
		f.widths[at] = int64(len(s.groups[g].nics))
		f.nics += f.widths[at]
	}
	return f
}

// of returns how many bytes the first NICs get, up to so many.
func (f *filler) of(nics int64) int64 {
	if f.full > 0 && nics < f.nics {
		if nics > 0 && f.full > f.total/nics {
			return f.total
		}
		return f.full * nics
	}
	return f.total/f.nics*nics + min(f.total%f.nics, nics)
}

func (f *filler) room() int64 { return f.of(f.before+f.widths[f.at]) - f.of(f.before) - f.used }

func (f *filler) fill(bytes int64) {
	f.used += bytes
	for f.at+1 < len(f.list) && f.room() == 0 {
		f.before += f.widths[f.at]
		f.at, f.used = f.at+1, 0
	}
}

// stream is the traffic from one NIC to another.
type stream struct {
	out, in  Rank
	from, to int   // their GPUs, by their ranks in their servers
	room     int64 // bytes for which no message has been chosen
	left     int64 // bytes not sent
}

// streams appends the streams between two groups, by their place in load: first those between
// NICs of GPUs of the same number.
func (s *servers) streams(list []stream, at int) []stream {
	a, b := s.groups[at/len(s.groups)], s.groups[at%len(s.groups)]
	width, first := s.width(at), len(list)
	add := func(same bool) {
		for _, out := range a.nics {
			for _, in := range b.nics {
				if len(list) == first+width {
					return
				}
				taken := func(x stream) bool { return x.out == out || x.in == in }
				if (!same || s.number(out) == s.number(in)) && !slices.ContainsFunc(list[first:], taken) {
					bytes := evenly(s.load[at], int64(width), int64(len(list)-first))
					from, to := s.t.Site.home(out), s.t.Site.home(in)
					list = append(list, stream{out, in, int(from) - a.server*s.t.GPUs, int(to) - b.server*s.t.GPUs, bytes, bytes})
				}
			}
		}
	}
	add(true)
	add(false)
	return list
}

// number is the number of a NIC's GPU in its server.
func (s *servers) number(r Rank) int {
	if s.t.Site != nil {
		return s.t.Site.Place[r].GPU
	}
	return int(r) % s.t.GPUs
}
