package report

import (
	"fmt"
	"maps"
	"slices"

	"github.com/forsd/forsd/ib"
)

// rename finds nodes with another name or GUID than intended, has find return them, and lists
// them.
func (w *wiring) rename(wanted []Wanted) []Difference {
	out := []Difference{}
	differs := func(node, now string) {
		out = append(out, Difference{Kind: Renamed, Node: node, Now: []string{now}})
	}
	seen := map[ib.GUID]bool{}
	for i := range wanted {
		for _, e := range []*End{&wanted[i].A, &wanted[i].B} {
			name, there := w.nameOf[e.GUID]
			switch {
			case e.GUID == 0 || e.Name == "" || seen[e.GUID]:
				continue
			case there && nameKey(name) != nameKey(e.Name):
				differs(fmt.Sprintf("%s (%s)", e.Name, e.GUID), name)
			case !there && len(w.named[nameKey(e.Name)]) == 1:
				w.heirs[e.GUID] = w.named[nameKey(e.Name)][0]
				differs(fmt.Sprintf("%s (%s)", e.Name, e.GUID), w.heirs[e.GUID].String())
			}
			seen[e.GUID] = true
		}
	}
	for {
		places := w.byCables(wanted) // each round knows more of the nodes at the other ends
		if len(places) == 0 {
			return out
		}
		for _, key := range slices.Sorted(maps.Keys(places)) {
			p := places[key]
			if !slices.Contains(w.named[key], p.node) {
				differs(p.name, w.nameOf[p.node])
			}
			w.named[key] = []ib.GUID{p.node}
			w.moved[key] = true
		}
	}
}

// byCables finds nodes that are known by name in the place of others, or of no node that is
// called so: those to which most of the intended cables of a name lead. Two nodes with each
// other's names count as renamed if they have more than two cables, most of which say so;
// otherwise it is cables that are swapped. It returns nodes that it has not returned before.
func (w *wiring) byCables(wanted []Wanted) map[string]place {
	type votes struct {
		name string
		all  int // its cables
		of   map[ib.GUID]int
	}
	count := map[string]*votes{}
	for i := range wanted {
		ends := [2]End{wanted[i].A, wanted[i].B}
		for side, e := range ends {
			if e.GUID != 0 || e.Host != 0 {
				continue
			}
			key := nameKey(e.Name)
			if count[key] == nil {
				count[key] = &votes{name: e.Name, of: map[ib.GUID]int{}}
			}
			v := count[key]
			v.all++
			p, err := w.find(ends[1-side])
			link, there := w.at[p]
			if err != nil || !there {
				continue
			}
			other := &w.links[link].A
			if other.GUID == p.node && other.Port == p.port {
				other = &w.links[link].B
			}
			if other.Port == e.Port {
				v.of[other.GUID]++
			}
		}
	}
	places, claims := map[string]place{}, map[ib.GUID]int{}
	for key, v := range count {
		var best ib.GUID
		second := 0
		for node, n := range v.of {
			if n > v.of[best] {
				best, n = node, v.of[best]
			}
			second = max(second, n)
		}
		n, now := v.of[best], w.named[key]
		_, nameIsWanted := count[nameKey(w.nameOf[best])]
		if best != 0 && !w.moved[key] && (len(now) != 1 || now[0] != best) && (len(now) == 0 && !nameIsWanted && n > second && (n > 1 || v.all == 1) || 2*n > v.all && v.all > 2) {
			places[key] = place{node: best, name: v.name}
			claims[best]++
		}
	}
	for key := range count {
		if _, moves := places[key]; !moves && len(w.named[key]) == 1 {
			claims[w.named[key][0]]++
		}
	}
	maps.DeleteFunc(places, func(_ string, p place) bool { return claims[p.node] > 1 })
	return places
}
