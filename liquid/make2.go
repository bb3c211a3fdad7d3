package liquid

import (
	"context"
	"time"
)

type maker struct {
	ctx context.Context
	t   *Traffic
	o   Options
	r   *Result
}

func firstFit(t *Traffic) Schedule          { return nil }
func (m *maker) run()                       {}
func (m *maker) offer(x Method, s Schedule) {}

var _ = time.Now
