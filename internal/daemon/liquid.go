package daemon

import (
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// This file carries out what the controller asks for a fabric that is not a fat tree:
// the tables are read, a plan is made for them and published, and none are written.

// ownRoutes tells whether the fabric seen last is one that OpenSM routes by itself.
func (d *Daemon) ownRoutes() bool {
	v := d.board.Latest()
	return v != nil && v.Kind == controller.OwnRoutes
}

// tablesMatch tells whether the tables read back last are those planned, or those
// planned on, and when they were read.
func (d *Daemon) tablesMatch() (match bool, readAt time.Time) {
	match, readAt = d.desk.Match()
	return match || d.ownRoutes() && d.desk.InSwitches() != nil, readAt
}

// routesInForce is the fabric with the tables that were read back last, nil where
// there are none.
func (d *Daemon) routesInForce() (*topology.Fabric, *lft.Tables) {
	if v := d.board.Latest(); v != nil {
		return v.Fabric, d.desk.InSwitches()
	}
	return nil, nil
}
