package podplan

import (
	"context"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// Changes says how the tables of a plan differ from those that they were made from.
type Changes struct {
	BlocksChanged int `json:"table_blocks_changed"` // blocks of 64 entries of tables
	TableBlocks   int `json:"table_blocks"`         // in all
}

// MakeFrom does what Make does, and says how plan and tables differ from a plan and its tables
// as they were written.
func MakeFrom(ctx context.Context, t *topology.PodTree, s Settings, old *phasetable.View, tables *lft.Tables) (*Result, error) {
	r, err := Make(ctx, t, s)
	if err != nil {
		return nil, err
	}
	now, err := phasetable.New(r.Table(0))
	if err != nil {
		return nil, err
	}
	pairs := len(phasetable.Changes(old, now))
	r.pairsChanged, r.changes = &pairs, &Changes{lft.Changes(tables, r.Tables).Blocks, r.Tables.Blocks()}
	return r, nil
}
