package controller

// Kind is what a fabric is, and so what is done about it.
type Kind uint8

// The kinds. The tables of a fat tree are ours, also where a part of the fabric is
// not covered by the tree. Where it is not a tree the routes are the manager's: they
// are read and planned on, and nothing is written or signalled. ThreeLevels is for the
// controller what FatTree is; its lanes name cables of leaves and of mids.
const (
	FatTree       Kind = iota
	PartlyCovered      // a fat tree, and hosts or switches beside it
	OwnRoutes          // not a fat tree
	ThreeLevels        // a fat tree of three levels
)

var kindNames = [...]string{"fat-tree", "partly-covered", "own-routes", "three-levels"}

// String is the kind's name, as the API shows it.
func (k Kind) String() string { return kindNames[k] }
