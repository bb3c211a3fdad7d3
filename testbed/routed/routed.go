// Package routed gives fabrics forwarding tables, for tests of code that reads,
// carries or walks tables.
package routed

import (
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Tables are those of every LID of a fabric by the baseline that it makes itself.
func Tables(f *topology.Fabric) (*lft.Tables, error) {
	b, err := topology.NewBaseline(f)
	if err != nil {
		return nil, err
	}
	tree, err := topology.Fit(f, b, nil)
	if err != nil {
		return nil, err
	}
	return lft.Build(tree)
}
