// Package withheld keeps which cables are to stay out of the plan by decision, and who
// decided it: those whose counters say that they are not well, and those that are to be
// maintained. What led to a decision is the business of those who decide.
package withheld

import (
	"slices"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/topology"
)

// Cable is a cable of a lane by its leaf's end: the port that it is plugged into or, where
// it is missing, the port that the baseline has for it. Unlike the numbers of lanes it
// lasts when the baseline is accepted anew.
type Cable struct {
	Leaf topology.GUID `json:"leaf"`
	Port uint8         `json:"port"`
}

// At is the cable of a leaf's lane, both by index. It is false where the leaf never had
// one.
func At(t *topology.FatTree, leaf, lane int) (Cable, bool) {
	c, port := t.Leaves[leaf].Cables[lane], uint8(0)
	switch {
	case c.Usable():
		port = c.LeafPort
	case c.State == topology.Missing:
		port = t.Baseline.Leaves[leaf].Uplinks[lane].LeafPort
	}
	return Cable{t.Leaves[leaf].GUID, port}, port != 0
}

// Cause is who decided.
type Cause string

// The causes.
const (
	Isolated Cause = "isolated" // its counters say that it is not well
	Drained  Cause = "drained"  // an operator is to maintain it
)

// Book is what was decided. Its zero value has nothing in it.
type Book struct{ by map[Cause]map[Cable]bool }

// Set replaces what was decided for a cause.
func (b *Book) Set(why Cause, cables []Cable) {
	if b.by == nil {
		b.by = map[Cause]map[Cable]bool{}
	}
	set := make(map[Cable]bool, len(cables))
	for _, c := range cables {
		set[c] = true
	}
	b.by[why] = set
}

// Has tells whether a cable is withheld for a cause.
func (b *Book) Has(why Cause, c Cable) bool { return b.by[why][c] }

// Lanes lists the lanes of a tree whose cables are withheld for one of the causes, none
// given for any, ascending.
func (b *Book) Lanes(t *topology.FatTree, causes ...Cause) []controller.Lane {
	if len(causes) == 0 {
		causes = []Cause{Isolated, Drained}
	}
	var out []controller.Lane
	for l := range t.Leaves {
		for k := range t.Lanes {
			c, is := At(t, l, k)
			if is && slices.ContainsFunc(causes, func(why Cause) bool { return b.Has(why, c) }) {
				out = append(out, controller.Lane{Leaf: l, Lane: k})
			}
		}
	}
	return out
}
