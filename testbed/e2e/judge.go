package e2e

import (
	"context"
	"fmt"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/judge"
)

// judge has the judge that knows nothing of forsd's packages look at the site, by the
// tables in sight and by the fabric that ibnetdiscover shows.
func (s *Site) judge(ctx context.Context, sight *Sight) error {
	discovered, err := s.tool(ctx, "ibnetdiscover")
	if err != nil {
		return err
	}
	whole, err := judge.ReadFabric(fabgen.Ibnetdiscover(s.options.Fabric))
	if err != nil {
		return err
	}
	if sight.Outside, err = judge.ReadFabric(discovered); err != nil {
		return err
	}
	sight.Outside.As(whole)
	if sight.Entries, err = judge.ReadTables(sight.Dump); err != nil {
		return err
	}
	if err := s.Judge.Judge(ctx, s.Socket(), sight.Outside, sight.Entries); err != nil {
		return fmt.Errorf("the second judge: %w", err)
	}
	return nil
}
