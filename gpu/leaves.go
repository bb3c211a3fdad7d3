package gpu

import (
	"cmp"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// limit is a leaf with fewer lanes than NICs: in a stage, no more of its NICs than lanes may send
// to others, and no more may receive from others.
type limit struct {
	groups []int // of one NIC each
	lanes  int
}

// limited finds the leaves that have too few lanes for their NICs. Groups must have one NIC each.
func (s *servers) limited() (list []limit) {
	if s.t.Site == nil || s.t.Site.Lanes == nil {
		return nil
	}
	on := make([][]int, len(s.t.Site.Lanes.Down))
	for g, x := range s.groups {
		if len(x.nics) > 1 {
			return nil
		}
		on[x.leaf] = append(on[x.leaf], g)
	}
	for leaf, groups := range on {
		if lanes := s.t.Site.Lanes.common(leaf, leaf); lanes > 0 && lanes < len(groups) {
			list = append(list, limit{groups, lanes})
		}
	}
	return list
}

// idle is the number of NICs that must idle in each stage.
func (x *limit) idle() int { return len(x.groups) - x.lanes }

// least is the least length of stages that carry x, [group][group].
func (s *servers) least(x []int64) int64 {
	rows, columns, most := bipartite.Sums(len(s.groups), x)
	for i := range s.limits {
		out := -s.within(x, s.limits[i].groups)
		in := out
		for _, g := range s.limits[i].groups {
			out += rows[g]
			in += columns[g]
		}
		most = max(most, over(max(out, in), int64(s.limits[i].lanes)))
	}
	return most
}

// within is what groups of a leaf send each other.
func (s *servers) within(x []int64, groups []int) (sum int64) {
	for _, a := range groups {
		for _, b := range groups {
			sum += x[a*len(s.groups)+b]
		}
	}
	return sum
}

// extend appends rows and columns to a matrix of groups, so that in each matching of its
// decomposition, of some length, NICs idle as limits say: each added column stands for one that does
// not send, each added row for one that does not receive. Those that send within the leaf need not
// idle.
func (s *servers) extend(x []int64, length int64) []int64 {
	n := len(s.groups)
	s.size = n
	for i := range s.limits {
		s.size += s.limits[i].idle()
	}
	if s.size == n {
		return x
	}
	rows, columns, _ := bipartite.Sums(n, x)
	wide := make([]int64, s.size*s.size)
	for row := range n {
		copy(wide[row*s.size:], x[row*n:][:n])
	}
	next := n
	for i := range s.limits {
		need := int64(s.limits[i].idle())*length - s.within(x, s.limits[i].groups)
		s.limits[i].spread(rows, length, need, func(g, number int, bytes int64) { wide[g*s.size+next+number] = bytes })
		s.limits[i].spread(columns, length, need, func(g, number int, bytes int64) { wide[(next+number)*s.size+g] = bytes })
		next += s.limits[i].idle()
	}
	return wide
}

// spread divides the idle time of NICs with these loads, as much as is needed, among those that idle,
// the NICs with most of it first.
func (x *limit) spread(loads []int64, length, need int64, set func(group, number int, bytes int64)) {
	order := slices.Clone(x.groups)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(loads[a], loads[b]) })
	at, used := 0, int64(0)
	for number := range x.idle() {
		left := max(0, min(length, need))
		for need -= left; left > 0; {
			bytes := min(left, length-loads[order[at]]-used)
			if bytes > 0 {
				set(order[at], number, bytes)
			}
			left -= bytes
			if used += bytes; used == length-loads[order[at]] {
				at, used = at+1, 0
			}
		}
	}
}

// full is how many bytes a NIC of a server gets before the next, or 0 for equal shares: as many as the
// lanes of its leaf can carry if these are too few, so that whole NICs idle. each are the bytes of
// each server.
func (s *servers) full(server int, each []int64) int64 {
	share := over(each[server], max(1, s.each[server]))
	groups := s.groups[s.first[server]:s.first[server+1]]
	for _, g := range groups {
		if g.leaf != groups[0].leaf {
			return 0
		}
	}
	for _, x := range s.limits {
		if !slices.ContainsFunc(x.groups, func(g int) bool { return s.groups[g].server == server }) {
			continue
		}
		sum, nics := int64(0), make([]int64, s.t.Servers)
		for _, g := range x.groups {
			nics[s.groups[g].server]++
		}
		for i, some := range nics {
			if some > 0 {
				sum += each[i] / s.each[i] * some
			}
			for j, others := range nics { // what servers of a leaf send each other needs no lanes
				if others > 0 && some > 0 {
					sum -= s.pairs[i*s.t.Servers+j] / s.each[i] * some / s.each[j] * others
				}
			}
		}
		share = max(share, over(sum, int64(x.lanes)))
	}
	return share
}

// serve returns a function that leaves streams out of a stage until lanes can be found for the others.
// It is nil if lanes do not matter. s.skips lists what is left out of the stages that follow.
func (s *servers) serve() func([]int32, []int64, func(int, int64) int64) {
	s.skips = nil
	if s.t.Site == nil || s.t.Site.Lanes == nil {
		return nil
	}
	on := s.t.Site.Lanes
	lists := bipartite.NewLists(len(on.Down), on.Count, func(leaf, lane int) bool { return slices.Contains(on.Down[leaf], lane) })
	return func(match []int32, served []int64, late func(int, int64) int64) {
		of := func(row, out int) int64 { // the bytes of a row without some of its streams
			width := int64(s.width(row*len(s.groups) + int(match[row])))
			return served[row]/width*(width-int64(out)) + served[row]%width*(width-int64(out))/width
		}
		var list []crossing
		var streams []stream
		for a, b := range match[:len(s.groups)] {
			if b < 0 || int(b) >= len(s.groups) {
				continue
			}
			streams = s.streams(streams[:0], a*len(s.groups)+int(b))
			for number, x := range streams {
				from, to := s.t.Site.Place[x.out].Leaf, s.t.Site.Place[x.in].Leaf
				if from != to && on.common(from, to) > 0 {
					list = append(list, crossing{skip{a, number}, [2]int32{int32(from), int32(to)}, late(a, of(a, len(streams)-number))})
				}
			}
		}
		slices.SortStableFunc(list, func(x, y crossing) int { return cmp.Compare(y.late, x.late) })
		ends := make([][2]int32, len(list))
		for i := range list {
			ends[i] = list[i].ends
		}
		skips, count := map[skip]bool{}, map[int]int{}
		for i, lane := range lists.Choose(ends) {
			if lane < 0 {
				skips[list[i].skip] = true
				count[list[i].group]++
			}
		}
		for row, out := range count {
			served[row] = of(row, out)
		}
		s.skips = append(s.skips, skips)
	}
}

// skip is a stream that is left out of a stage: the number of a stream of a group.
type skip struct{ group, number int }

// crossing is a stream between leaves with common lanes, and how much longer the stages get if one leaves
// it out, with those of its group that follow.
type crossing struct {
	skip
	ends [2]int32
	late int64
}

// rooms divides the bytes of two groups, by their place in load, among their streams: no more than these
// can send in the stages, of which some leave them out.
func (s *servers) rooms(at int, streams []stream, order []stint, match []int32) {
	from, to := at/len(s.groups), int32(at%len(s.groups))
	can, skipped := make([]int64, len(streams)), false
	for _, x := range order {
		if match[int(x.turn)*s.size+from] != to {
			continue
		}
		for number := range can {
			if s.skips[x.turn][skip{from, number}] {
				skipped = true
			} else {
				can[number] += x.length
			}
		}
	}
	if !skipped {
		return
	}
	number := make([]int, len(can))
	for i := range number {
		number[i] = i
	}
	slices.SortStableFunc(number, func(a, b int) int { return cmp.Compare(can[a], can[b]) })
	left := s.load[at]
	for i, k := range number {
		bytes := min(can[k], over(left, int64(len(number)-i)))
		streams[k].room, streams[k].left = bytes, bytes
		left -= bytes
	}
}
