// Package dumps runs dumps of fabrics through forsd and through OpenSM, and compares the
// results for programs that send to base LIDs.
package dumps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/judge"
	"github.com/forsd/forsd/topology"
)

// planned is forsd's plan for a fabric.
type planned struct {
	kind    string   // how many levels it has
	servers []uint64 // of the exchange, by the GUIDs of their ports
	away    int      // host ports that the tree does not cover
	base    int      // phases of the plan for base LIDs, 0 without it
	bound   int      // of it
	loads   *judge.Loads
}

// most is the largest number of servers for which the judge checks tables and plans. Beyond
// that it walks the exchange of the whole fabric, and forsd's own verifier checks the rest.
const most = 100

// plan plans a fabric seen through the baseline of the whole one, has a judge that shares
// nothing with the planner check tables and plans, and walks the exchange on the tables. On
// three levels it plans at once if another plan is given to start from.
func plan(ctx context.Context, f, whole *topology.Fabric, base *topology.Baseline, dir string, from *planned) (*planned, error) {
	p := &planned{kind: "2"}
	ports := func(hosts []topology.Host, of []int) {
		for _, i := range of {
			p.servers = append(p.servers, uint64(hosts[i].GUID))
		}
	}
	var write func(string) error
	apart := false // parallel cables have lanes of their own up and down
	if base.Pods == nil {
		tree, err := topology.Fit(f, base, nil)
		if err != nil {
			return nil, err
		}
		r, err := planner.Make(ctx, tree, planner.Settings{})
		if err != nil {
			return nil, err
		}
		ports(tree.Hosts, tree.Servers)
		p.away, write = len(tree.Uncovered.Hosts), r.WriteDir
		apart = tree.Lanes > len(tree.Spines)
		report := r.Report()
		if b := report.Base; b != nil {
			p.base, p.bound = b.Phases, b.LowerBound
		}
	} else {
		p.kind = "3"
		tree, err := topology.FitPods(f, base.Pods, nil)
		if err != nil {
			return nil, err
		}
		r, err := podplan.Make(ctx, tree, podplan.Settings{AtOnce: from != nil})
		if err != nil {
			return nil, err
		}
		ports(tree.Hosts, tree.Servers)
		p.away, write = len(tree.Uncovered.Hosts), r.WriteDir
		report := r.Report()
		if b := report.Base; b != nil {
			p.base, p.bound = b.Phases, b.LowerBound
		}
	}
	if from != nil && len(p.servers) > most {
		return p, nil
	}
	if err := write(dir); err != nil {
		return nil, err
	}
	var err error
	p.loads, err = judged(f, whole, p.servers, dir, len(p.servers) <= most, apart)
	return p, err
}

// judged reads the files of forsctl plan back, and judges them.
func judged(f, whole *topology.Fabric, servers []uint64, dir string, plans, apart bool) (*judge.Loads, error) {
	now, tables, err := read(f, filepath.Join(dir, planner.TablesFile))
	if err != nil {
		return nil, err
	}
	before, err := judge.ReadFabric(fabgen.Ibnetdiscover(whole))
	if err != nil {
		return nil, err
	}
	if !plans {
		return now.Loads(tables, servers)
	}
	now.As(before)
	if err := now.Tables(tables); err != nil {
		return nil, err
	}
	figures, err := os.ReadFile(filepath.Join(dir, planner.ReportFile))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{planner.PhasesFile, planner.BaseFile} {
		rows, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // too many transfers to write, or no plan for base LIDs
		} else if err != nil {
			return nil, err
		}
		p, err := judge.ReadPlan(figures, rows)
		if err != nil {
			return nil, err
		}
		if name == planner.BaseFile {
			var of struct{ Base json.RawMessage }
			if err := json.Unmarshal(figures, &of); err != nil {
				return nil, err
			}
			if len(of.Base) > 0 {
				if err := json.Unmarshal(of.Base, p); err != nil {
					return nil, err
				}
			}
			p.Base = true
		}
		if apart { // a lane is one cable at a leaf to the judge, and here another one up than down
			p.Lanes = 0
			for i := range p.Rows {
				p.Rows[i].Lane = -1
			}
		}
		if _, err := now.Plan(tables, servers, p); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return now.Loads(tables, servers)
}

// read has the judge read a fabric, and tables from a file.
func read(f *topology.Fabric, tables string) (*judge.Fabric, judge.Tables, error) {
	now, err := judge.ReadFabric(fabgen.Ibnetdiscover(f))
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(tables)
	if err != nil {
		return nil, nil, err
	}
	t, err := judge.ReadTables(text)
	return now, t, err
}

// failure draws a cable between two switches that have others.
func failure(f *topology.Fabric, rng *rand.Rand) topology.PortRef {
	var cables []topology.PortRef
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if port := &f.Nodes[i].Ports[p]; port.Up() && f.Nodes[i].Kind == topology.Switch && f.Nodes[port.Peer].Kind == topology.Switch && port.Peer > int32(i) {
				cables = append(cables, topology.PortRef{Node: int32(i), Port: uint8(p)})
			}
		}
	}
	return cables[rng.IntN(len(cables))]
}
