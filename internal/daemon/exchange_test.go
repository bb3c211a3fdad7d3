package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// railed is a fabric of four rails with two leaves each; hosts that spoil names otherwise keep
// their names.
func railed(lmc uint8, spoil func(host int) bool) *topology.Fabric {
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 8, LMC: lmc})
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Kind == topology.Adapter {
			number := int(n.GUID-fabgen.HostGUID) / 2
			if host := number/16*4 + number%4; !spoil(host) {
				n.Name = fmt.Sprintf("node%d mlx5_%d", host, number/4%4)
			}
		}
	}
	return f
}

// TestRailsExchange has forsd plan exchanges within rails: with LIDs for all lanes and with one,
// with a dead cable, next to a job over all rails, and while names say nothing about rails.
func TestRailsExchange(t *testing.T) {
	for _, lmc := range []uint8{2, 0} {
		healthy := railed(lmc, func(int) bool { return false })
		d := readable(newDaemon(t))
		d.cfg.Planning.Exchange = config.Exchange{Groups: planner.Groups{Rails: true}}
		check := func(when string, phases int, groups int) {
			t.Helper()
			e := d.state.Now().Epoch
			if e.Plan.Phases() != phases || len(e.Report.Groups) != groups || e.Plan.Servers() != 32 {
				t.Errorf("LMC %d, %s: %d phases, %d groups, %d servers, want %d and %d", lmc, when, e.Plan.Phases(), len(e.Report.Groups), e.Plan.Servers(), phases, groups)
			}
			if base := d.state.Now().Base; base == nil || base.Plan.Phases() > phases+1 {
				t.Errorf("LMC %d, %s: the base plan is %v", lmc, when, base)
			}
		}
		d.atRest(t, healthy)
		check("healthy", 7, 4)
		hurt := lacking(healthy, 4, 1, 2)
		d.atRest(t, hurt)
		check("a dead cable", 7+int(1-lmc/2), 4)
		j := d.make(t, "", []string{"node0 mlx5_0", "node1 mlx5_1", "node5 mlx5_2"})
		holds(t, d.state.Now().Latest, j, d.desk.InSwitches())
		d.atRest(t, healthy)
		check("the cable back", 7, 4)

		d.atRest(t, railed(lmc, func(host int) bool { return host != 3 }))
		if text := d.warning(topology.ExchangeDiffers); !strings.Contains(text, "all servers exchange data with all: no rails are recognised") {
			t.Errorf("without rails the warning says %q", text)
		}
		check("without rails", 31, 0)
		d.atRest(t, healthy)
		if text := d.warning(topology.ExchangeDiffers); text != "" {
			t.Errorf("with rails the warning says %q", text)
		}
		check("rails again", 7, 4)
	}
}

// TestGroupsExchange has forsd plan groups of a file, of which one names a host that is not
// there.
func TestGroupsExchange(t *testing.T) {
	d := readable(newDaemon(t))
	groups, err := planner.ReadGroups([]byte("group,server\na,Hca0000\na,Hca0005\na,Hca0010\nb,Hca0001\nb,Hca0004\nb,nobody\n"))
	ok(t, err)
	d.cfg.Planning.Exchange.Groups = groups
	d.atRest(t, fabric(4, 4))
	if e := d.state.Now().Epoch; e.Plan.Servers() != 5 || e.Plan.Phases() != 2 || len(e.Report.Groups) != 2 || e.Report.Groups[1] != (planner.GroupReport{Name: "b", Servers: 2, Phases: 1, LowerBound: 1}) {
		t.Errorf("%d servers, %d phases, %+v", e.Plan.Servers(), e.Plan.Phases(), e.Report.Groups)
	}
	if text := d.warning(topology.ExchangeDiffers); !strings.Contains(text, "not in the fabric: nobody") {
		t.Errorf("the warning says %q", text)
	}
}

// TestRailsThreeLevels has forsd plan exchanges within rails, one to a leaf of each pod, on a fat tree
// of three levels: while nothing has failed, with a dead cable, and back.
func TestRailsThreeLevels(t *testing.T) {
	for _, lmc := range []uint8{0, 2} {
		spec := fabgen.KAry(4)
		spec.LMC = lmc
		healthy := fabgen.GenerateTree(spec)
		for i := range healthy.Nodes {
			if n := &healthy.Nodes[i]; n.Kind == topology.Adapter {
				number := int(n.GUID-fabgen.HostGUID) / 2
				n.Name = fmt.Sprintf("node%d mlx5_%d", number/4*2+number%2, number/2%2)
			}
		}
		d := readable(newDaemon(t))
		d.cfg.Planning.Exchange = config.Exchange{Groups: planner.Groups{Rails: true}}
		check := func(when string, phases int) {
			t.Helper()
			e, base := d.state.Now().Epoch, d.state.Now().Base
			if e.Plan.Phases() != phases || len(e.Report.Groups) != 2 || e.Plan.Servers() != 16 || base == nil || base.Plan.Phases() != phases {
				t.Errorf("LMC %d, %s: %d phases, %+v, %d servers, want %d; the base plan is %+v", lmc, when, e.Plan.Phases(), e.Report.Groups, e.Plan.Servers(), phases, base)
			}
			if text := d.warning(topology.ExchangeDiffers); text != "" {
				t.Errorf("LMC %d, %s: %s", lmc, when, text)
			}
		}
		d.atRest(t, healthy)
		check("healthy", 7)
		whole := d.state.Now().Epoch.Plan
		d.atRest(t, failing(t, healthy, "Leaf001/3"))
		check("a dead cable", 12)
		d.atRest(t, healthy)
		check("the cable back", 7)
		if n := len(phasetable.Changes(whole, d.state.Now().Epoch.Plan)); n > 0 {
			t.Errorf("LMC %d: %d pairs have other LIDs than before", lmc, n)
		}
	}
}
