package controller

// Kind is the kind of a fabric, which determines how it is handled.
type Kind uint8

// The kinds. forsd makes the tables of a fat tree, even if part of the fabric is outside the
// tree. In other fabrics the manager makes the routes: forsd reads them and plans on them, but
// does not write or signal. ThreeLevels is handled like FatTree; its lanes name cables of
// leaves and of mids.
const (
	FatTree       Kind = iota
	PartlyCovered      // a fat tree with hosts or switches outside it
	OwnRoutes          // not a fat tree
	ThreeLevels        // a fat tree of three levels
)

var kindNames = [...]string{"fat-tree", "partly-covered", "own-routes", "three-levels"}

// String returns the kind's name in the API.
func (k Kind) String() string { return kindNames[k] }
