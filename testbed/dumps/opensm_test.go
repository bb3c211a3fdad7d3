package dumps

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/testbed/judge"
	"github.com/forsd/forsd/topology"
)

// engines are the engines of OpenSM that forsd is compared with.
var engines = []string{"minhop", "updn", "ftree", "dfsssp"}

// routed is the result of an OpenSM engine for a fabric.
type routed struct {
	engine string
	by     string // the engine that OpenSM used: another one if this one cannot route the fabric
	loads  *judge.Loads
}

// text is its cell of the table, with the number of pairs that cannot be reached.
func (r *routed) text(unreachable int) string {
	text := fmt.Sprintf("%d / %d", r.loads.InStep, r.loads.AtOnce)
	if r.by != r.engine {
		text += " ="
	}
	if n := r.loads.Unreachable - unreachable; n != 0 {
		text += fmt.Sprintf(" (%+d pairs cut off)", n)
	}
	return text
}

// route makes an OpenSM route a simulated fabric by each engine, and walks the exchange of the
// servers that a function finds in the fabric as OpenSM sees it.
func route(ctx context.Context, f *topology.Fabric, find func(*topology.Fabric) ([]uint64, error)) ([]routed, error) {
	f = ibsim.Simulable(f)
	sim, err := ibsim.Start(ctx, ibsim.Options{Fabric: f})
	if err != nil {
		return nil, err
	}
	defer sim.Close()
	var host ib.GUID
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Kind == topology.Adapter && n.Role != topology.AggregationNode && len(n.Ports) > 1 && n.Ports[1].Connected() {
			host = n.GUID
		}
	}
	var out []routed
	var servers []uint64
	for _, engine := range engines {
		seen, tables, by, err := routeBy(ctx, sim, host, engine)
		if err == nil && len(out) == 0 {
			servers, err = find(seen)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", engine, err)
		}
		now, t, err := read(seen, tables)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", engine, err)
		}
		loads, err := now.Loads(t, servers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", engine, err)
		}
		out = append(out, routed{engine, by, loads})
	}
	return out, nil
}

var configured = regexp.MustCompile(`(\S+) tables configured on all switches`)

// routeBy makes OpenSM route by an engine, and returns the fabric that it sees, the file with
// its tables, and the engine that it used.
func routeBy(ctx context.Context, sim *ibsim.Sim, host ib.GUID, engine string) (f *topology.Fabric, tables, by string, err error) {
	m, err := sim.StartOpenSM(ctx, ibsim.OpenSMOptions{Host: host.String(), RoutingEngine: engine, LogFlags: 0x43})
	if err != nil {
		return nil, "", "", err
	}
	defer m.Kill()
	if _, _, err := m.WaitLog(ctx, ibsim.SubnetUp, 0); err != nil {
		return nil, "", "", err
	}
	dump, err := os.ReadFile(filepath.Join(m.Dir(), "opensm-subnet.lst"))
	if err != nil {
		return nil, "", "", err
	}
	log, err := m.Log()
	if err != nil {
		return nil, "", "", err
	}
	said := configured.FindSubmatch(log)
	if said == nil {
		return nil, "", "", fmt.Errorf("OpenSM does not say by which engine it routes")
	}
	f, err = topology.ReadSubnetLst(dump)
	return f, filepath.Join(m.Dir(), "opensm-lfts.dump"), string(said[1]), err
}
