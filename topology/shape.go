package topology

import (
	"errors"
	"fmt"
)

// Shape is the kind of a fabric, which determines how it is routed and planned.
type Shape uint8

// The shapes.
const (
	// NoShape: unknown as yet, see NotYet, or the fabric is inconsistent.
	NoShape Shape = iota
	// WholeTree: a two-level fat tree that covers every switch and every host.
	WholeTree
	// PartTree: a two-level fat tree and the parts in FatTree.Uncovered. The tree is
	// planned; the rest is routed and takes no part.
	PartTree
	// NoTree: anything else, see *NotFatTree. It can only be scheduled on its own routes.
	NoTree
)

// ShapeOf returns the shape of the fabric for which Fit or NewBaseline returned t and err.
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

// NotYet names the step that the subnet manager must complete before the fabric can be
// judged: the next dump may show a fat tree.
type NotYet struct {
	Where string // the port, node or fabric
	Why   string
}

// Error prints what is missing.
func (e *NotYet) Error() string {
	return fmt.Sprintf("the subnet manager has not finished: %s %s", e.Where, e.Why)
}

// Uncovered is the part of a fabric outside its fat tree. It stays routed if a path exists,
// and takes no part in the exchange.
type Uncovered struct {
	Switches []int32         // nodes that are neither leaves nor spines, ascending
	Hosts    []UncoveredHost // by node and port
	Cables   []PortRef       // between two leaves or two spines, each by one end, ascending
}

// UncoveredHost is an end port outside the tree, with the reason.
type UncoveredHost struct {
	PortRef
	Why string // such as "is behind switch Odd01"
}

// Pairs counts the ordered pairs of hosts that an exchange of the given servers lacks
// because one of them is outside the tree.
func (u *Uncovered) Pairs(servers int) int { return len(u.Hosts) * (len(u.Hosts) - 1 + 2*servers) }

// Empty reports whether the tree covers the whole fabric.
func (u *Uncovered) Empty() bool {
	return len(u.Switches) == 0 && len(u.Hosts) == 0 && len(u.Cables) == 0
}
