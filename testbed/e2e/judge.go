package e2e

import (
	"context"
	"fmt"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/judge"
)

// judge has the judge that knows nothing of forsd's packages look at the site, on the tables
// in sight.
func (s *Site) judge(ctx context.Context, sight *Sight) error {
	f, t, err := s.Judged(ctx, sight)
	if err == nil {
		err = s.Judge.Judge(ctx, s.Socket(), f, t)
	}
	if err != nil {
		return fmt.Errorf("the second judge: %w", err)
	}
	return nil
}

// Judged is the fabric as ibnetdiscover shows it, compared with the one that the site began
// with, and the tables in sight, in the judge's form.
func (s *Site) Judged(ctx context.Context, sight *Sight) (*judge.Fabric, judge.Tables, error) {
	discovered, err := s.tool(ctx, "ibnetdiscover")
	if err != nil {
		return nil, nil, err
	}
	whole, err := judge.ReadFabric(fabgen.Ibnetdiscover(s.options.Fabric))
	if err != nil {
		return nil, nil, err
	}
	f, err := judge.ReadFabric(discovered)
	if err != nil {
		return nil, nil, err
	}
	f.As(whole)
	t, err := judge.ReadTables(sight.Dump)
	return f, t, err
}
