package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestOtherFabric runs forsd with an OpenSM that routes a dragonfly by dfsssp: forsd schedules
// the exchange on the tables in the switches, does so again when a cable dies, and writes no
// tables.
func TestOtherFabric(t *testing.T) {
	t.Parallel()
	fabric := fabgen.Dragonfly(5, 4, 1)
	x := newSite(t, 3*time.Minute, Options{Fabric: fabric, Engine: "dfsssp", Config: steady + "planning: {other_fabrics: liquid}\n"})
	x.ok(x.Start(x.ctx))
	scheduled := func(after uint64) *api.Status {
		return x.until(fmt.Sprintf("a plan after epoch %d", after), func(st *api.Status) bool { return st.Ready && st.Epoch > after })
	}
	st := scheduled(0)
	if st.Engine != "liquid" || st.Servers != 20 || st.Lanes != 0 {
		t.Errorf("engine %s, %d servers, %d lanes; want liquid, 20, 0", st.Engine, st.Servers, st.Lanes)
	}
	x.warned("not-a-fat-tree")
	x.onSwitches(20 * 19)

	x.ok(x.Sim.Unlink(x.ctx, "Router000", 2))
	st = scheduled(st.Epoch)
	x.onSwitches(20 * 19)
	x.ok(x.Sim.Relink(x.ctx, "Router000", 2))
	scheduled(st.Epoch)
	x.onSwitches(20 * 19)

	if _, err := os.Stat(x.TableFile()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a table file of a fabric that keeps its routes: %v", err)
	}
}

// onSwitches waits until the plan in force holds on the tables that are in the
// switches: OpenSM may sweep once more, and then a plan for other routes follows.
func (x *test) onSwitches(transfers int) {
	x.Helper()
	ctx, cancel := x.within()
	defer cancel()
	x.ok(x.Until(ctx, func() error {
		view, err := x.Client.Table(ctx)
		if err != nil {
			return err
		}
		return x.walked(view, transfers)
	}))
}

// walked walks a plan on routes of OpenSM's own over the tables in the switches.
func (x *test) walked(view *phasetable.View, transfers int) error {
	f, err := x.Fabric(x.ctx)
	if err != nil {
		return err
	}
	tables, err := x.ReadTables(x.ctx)
	if err != nil {
		return err
	}
	var rows []sim.Row
	for s := range view.Servers() {
		row := view.Row(s)
		for p := range view.Phases() {
			e := row.At(p)
			if e.SendTo < 0 {
				continue
			}
			rows = append(rows, sim.Row{Phase: int32(p), DLID: e.DLID, Src: view.Server(s).GUID, Dst: view.Server(e.SendTo).GUID})
			if e.Lane != phasetable.Local {
				return fmt.Errorf("phase %d of server %d has lane %d", p, s, e.Lane)
			}
		}
	}
	r, err := sim.Run(f, tables, rows)
	if err == nil && (r.Transfers != transfers || r.Lost != 0 || r.Max != 1) {
		err = fmt.Errorf("%d transfers in %d phases, %d lost, up to %d on a link; want %d, none, 1: %s", r.Transfers, r.Phases, r.Lost, r.Max, transfers, r.FirstLost)
	}
	return err
}
