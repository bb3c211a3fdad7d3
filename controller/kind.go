package controller

// Kind is the kind of a fabric, which determines how it is handled.
type Kind uint8

// The kinds. forsd makes the tables of a fat tree, even if part of the fabric is outside
// the tree. If it is not a tree the routes are the manager's: they are read and planned on,
// and nothing is written or signalled. ThreeLevels is handled like FatTree; its lanes name
// cables of leaves and of mids.
const (
	FatTree       Kind = iota
	PartlyCovered      // a fat tree, and hosts or switches outside it
	OwnRoutes          // not a fat tree
	ThreeLevels        // a fat tree of three levels
)

var kindNames = [...]string{"fat-tree", "partly-covered", "own-routes", "three-levels"}

// String returns the kind's name, as the API shows it.
func (k Kind) String() string { return kindNames[k] }
