package topology

import (
	"errors"
	"fmt"
)

// Shape is what a fabric is, and with it who routes it and how it is planned.
type Shape uint8

// The shapes.
const (
	// NoShape: it cannot be told yet, see NotYet, or the fabric does not hold together.
	NoShape Shape = iota
	// WholeTree: a two-level fat tree that covers every switch and every host.
	WholeTree
	// PartTree: a two-level fat tree, and beside it what FatTree.Uncovered lists. The
	// tree is planned; the rest is routed and takes no part.
	PartTree
	// NoTree: anything else, as *NotFatTree says. It can be scheduled on routes of its
	// own alone.
	NoTree
)

// ShapeOf is the shape of the fabric for which Fit or NewBaseline has answered t
// and err.
func ShapeOf(t *FatTree, err error) Shape {
	var other *NotFatTree
	switch {
	case errors.As(err, &other):
		return NoTree
	case err != nil || t == nil:
		return NoShape
	case t.Uncovered.Empty():
		return WholeTree
	}
	return PartTree
}

// NotYet says what the subnet manager has still to do before the fabric can be
// judged: it is no verdict, and the next dump may show a fat tree.
type NotYet struct {
	Where string // the port, node or fabric
	Why   string
}

// Error prints what is missing.
func (e *NotYet) Error() string {
	return fmt.Sprintf("the subnet manager has not finished: %s %s", e.Where, e.Why)
}

// Uncovered is what of a fabric its fat tree does not cover. It stays routed
// wherever a path exists, and takes no part in the exchange.
type Uncovered struct {
	Switches []int32         // nodes that are neither leaves nor spines, ascending
	Hosts    []UncoveredHost // by node and port
	Cables   []PortRef       // between two leaves or two spines, each by one end, ascending
}

// UncoveredHost is an end port that the tree does not cover, and why.
type UncoveredHost struct {
	PortRef
	Why string // such as "is behind switch Odd01"
}

// Pairs counts the ordered pairs of hosts that are not in an exchange of so many servers
// because the tree does not cover one of them.
func (u *Uncovered) Pairs(servers int) int { return len(u.Hosts) * (len(u.Hosts) - 1 + 2*servers) }

// Empty tells whether the tree covers the whole fabric.
func (u *Uncovered) Empty() bool {
	return len(u.Switches) == 0 && len(u.Hosts) == 0 && len(u.Cables) == 0
}
