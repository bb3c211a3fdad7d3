package daemon

import (
	"context"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/plans"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
)

// This file is for a forsd that only watches OpenSM. Its controller is always a standby:
// it only plans the fabric that it sees.

// errWatches is the error for requests that only a managing forsd can carry out.
var errWatches = api.Refused("forsd only watches: set mode: manage in forsd.yaml, give OpenSM the settings of opensm.conf.fragment, and restart both")

// untouched returns a configuration with which forsd sends nothing to OpenSM or its
// fabric, except questions to switches.
func untouched(cfg *config.Config) *config.Config {
	if !cfg.Watches() {
		return cfg
	}
	c := *cfg
	c.OpenSM.Plugin.Enabled, c.OpenSM.Traps, c.OpenSM.InstallCommand = config.EnabledOff, config.TrapsOff, nil
	return &c
}

// look compares the plan of a fabric with OpenSM's tables.
func (x *actions) look(ctx context.Context, a controller.Plan) {
	v := view.Of(a.Fabric)
	if !x.cfg.Watches() || v.Tree == nil {
		return
	}
	x.backend.Watched.Store(plans.Compare(ctx, v, x.planning, func(ctx context.Context) (*lft.Tables, error) {
		tables, _, err := x.reader().Tables(ctx, v.Fabric)
		return tables, err
	}))
	x.store.KeepBaseline()
	x.notify("STATUS=forsd only watches; the fabric was last seen " + time.Now().Format(time.TimeOnly))
}
