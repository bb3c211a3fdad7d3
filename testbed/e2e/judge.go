package e2e

import (
	"context"
	"errors"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/judge"
)

// Judged makes the judge, which is independent of forsd's packages, check the site, by tables
// as dump_fts has printed them and by the fabric of ibnetdiscover. It returns both in the
// judge's form. Without a dump the tables are read out of the switches.
func (s *Site) Judged(ctx context.Context, dump []byte) (*judge.Fabric, judge.Tables, error) {
	whole, err := judge.ReadFabric(fabgen.Ibnetdiscover(s.options.Fabric))
	if err != nil {
		return nil, nil, err
	}
	return s.Judge.Judge(ctx, s.Socket(), func() (f *judge.Fabric, t judge.Tables, err error) {
		discovered := make(chan error, 1)
		go func() {
			text, err := s.tool(ctx, "ibnetdiscover")
			if err == nil {
				f, err = judge.ReadFabric(text)
			}
			discovered <- err
		}()
		if dump == nil {
			dump, err = s.dumpTables(ctx)
		}
		if err == nil {
			t, err = judge.ReadTables(dump)
		}
		if err := errors.Join(err, <-discovered); err != nil {
			return nil, nil, err
		}
		f.As(whole)
		return f, t, nil
	})
}
