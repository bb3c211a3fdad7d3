package topology

import (
	"fmt"
	"maps"
	"slices"

	"github.com/forsd/forsd/ib"
)

// BaselineChanges describes in words how another baseline differs: removed, added and
// renumbered parts.
func BaselineChanges(from, to *Baseline) []string {
	var out []string
	s1, oldLanes, oldFirst := from.uppers()
	s2, newLanes, newFirst := to.uppers()
	if (from.Pods == nil) != (to.Pods == nil) {
		out = append(out, "a fat tree of another number of levels")
	}
	if oldLanes != newLanes {
		out = append(out, fmt.Sprintf("%d lanes instead of %d", newLanes, oldLanes))
	}
	nodes := func(b *Baseline) (leaves, hosts, place map[ib.GUID]string) {
		leaves, hosts, place = map[ib.GUID]string{}, map[ib.GUID]string{}, map[ib.GUID]string{}
		for l := range b.slots() {
			leaves[l.GUID] = l.Name
			for index, s := range l.Slots {
				if s.GUID != 0 {
					hosts[s.GUID], place[s.GUID] = s.Name, fmt.Sprint(l.GUID, index)
				}
			}
		}
		return leaves, hosts, place
	}
	l1, h1, p1 := nodes(from)
	l2, h2, p2 := nodes(to)
	for _, k := range []struct {
		one, many string
		a, b      map[ib.GUID]string
	}{{"spine", "spines", s1, s2}, {"leaf", "leaves", l1, l2}, {"host port", "host ports", h1, h2}} {
		out = append(out, missing("forgotten", k.one, k.many, k.a, k.b)...)
		out = append(out, missing("taken up", k.one, k.many, k.b, k.a)...)
	}
	if n := numbered(oldFirst, newFirst); n > 0 {
		out = append(out, fmt.Sprintf("other lanes for spines that stay: %d", n))
	}
	if n := numbered(p1, p2); n > 0 {
		out = append(out, fmt.Sprintf("another index or leaf for host ports that stay: %d", n))
	}
	return out
}

// missing describes the nodes of a that are not in b, three by name.
func missing(what, one, many string, a, b map[ib.GUID]string) []string {
	var names []string
	for _, g := range slices.Sorted(maps.Keys(a)) {
		if _, there := b[g]; !there {
			names = append(names, fmt.Sprintf("%s (%s)", a[g], g))
		}
	}
	switch n := len(names); {
	case n == 0:
		return nil
	case n == 1:
		return []string{fmt.Sprintf("1 %s %s: %s", one, what, names[0])}
	case n <= 3:
		return []string{fmt.Sprintf("%d %s %s: %v", n, many, what, names)}
	}
	return []string{fmt.Sprintf("%d %s %s, such as %s", len(names), many, what, names[0])}
}

// numbered counts the keys of both maps whose values differ.
func numbered[V comparable](a, b map[ib.GUID]V) (n int) {
	for g, v := range a {
		if w, there := b[g]; there && v != w {
			n++
		}
	}
	return n
}
