package exclusions

import (
	"slices"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Cause is a reason to keep a cable out of the plan, or several.
type Cause uint8

// The causes.
const (
	Isolated Cause = 1 << iota // its counters are bad
	Drained                    // in maintenance
	Any      = Isolated | Drained
)

// Set lists the cables that are kept out of the plan by decision, with the causes. Its zero value
// is empty.
type Set struct{ causes map[ib.End]Cause }

// Replace replaces the cables of a cause.
func (s *Set) Replace(why Cause, cables []ib.End) {
	if s.causes == nil {
		s.causes = map[ib.End]Cause{}
	}
	for c := range s.causes {
		if s.causes[c] &^= why; s.causes[c] == 0 {
			delete(s.causes, c)
		}
	}
	for _, c := range cables {
		s.causes[c] |= why
	}
}

// Has reports whether a cable is excluded for one of the causes.
func (s *Set) Has(why Cause, c ib.End) bool { return s.causes[c]&why != 0 }

// Lanes lists the lanes of a tree whose cables are excluded for one of the causes, in ascending
// order.
func (s *Set) Lanes(t *topology.FatTree, why Cause) (out []controller.Lane) {
	if len(s.causes) == 0 {
		return nil
	}
	for _, x := range Links(t) {
		if s.Has(why, x.Lower.End) {
			out = append(out, x.Lane)
		}
	}
	slices.SortFunc(out, controller.Compare)
	return out
}
