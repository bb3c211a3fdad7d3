package forsplan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/fabricflags"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// lanesFlags are the flags by which gpu schedule is told of the fabric between the NICs.
type lanesFlags struct {
	fabric fabricflags.Fabric
	nics   string
}

func (f *lanesFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.fabric.Topology, "fabric", "", "the fat tree that joins the NICs, to pin stages on its lanes: output of ibnetdiscover, or an opensm-subnet.lst")
	fs.StringArrayVar(&f.fabric.Fail, "fail", nil, "with --fabric: take a node (description or GUID) or a cable (NODE/PORT) out; repeatable")
	fs.StringVar(&f.nics, "nics", "", "with --fabric: the hosts that are the NICs, a line each, server by server (default: all hosts, in the order of forsctl topology)")
	f.fabric.LMC.Register(cmd)
}

// pin pins a plan on the fabric's lanes and checks it on the tables of the fabric's plan. There
// is nothing to pin without --fabric.
func (f *lanesFlags) pin(ctx context.Context, p *gpu.Plan, m gpu.Model) (*lanes.Plan, error) {
	if f.fabric.Topology == "" {
		if f.nics != "" || len(f.fabric.Fail) > 0 {
			return nil, errors.New("--nics and --fail go with --fabric: name the fabric that joins the NICs")
		}
		return nil, nil
	}
	tree, pods, err := f.fabric.EitherTree()
	if err != nil {
		return nil, err
	}
	if pods != nil {
		return nil, fmt.Errorf("--fabric %s: it is a fat tree of three levels, and stages are pinned on those of two", f.fabric.Topology)
	}
	nics, err := f.hosts(p, tree)
	if err != nil {
		return nil, err
	}
	routed, err := planner.Route(context.WithoutCancel(ctx), tree, planner.Settings{})
	if err != nil {
		return nil, err
	}
	pinned, err := lanes.Pin(ctx, p, m, tree, nics)
	if err != nil {
		return nil, fmt.Errorf("--fabric %s: %w", f.fabric.Topology, err)
	}
	if err := pinned.Verify(p, tree, routed.Tables); err != nil {
		return nil, fmt.Errorf("the plan fails its check on the fabric's tables, which is a fault of forsplan: %w", err)
	}
	return pinned, nil
}

// readNICs reads --nics; without it there are none.
func readNICs(file string) ([]string, error) {
	if file == "" {
		return nil, nil
	}
	data, err := command.ReadFlag("nics", file, "a file with the hosts that are the NICs")
	if err != nil {
		return nil, err
	}
	names := strings.Fields(string(data))
	if len(names) == 0 {
		return nil, fmt.Errorf("--nics %s: there is no host in it", file)
	}
	return names, nil
}

// hosts are the NICs of the servers, as numbers in the tree's hosts.
func (f *lanesFlags) hosts(p *gpu.Plan, tree *topology.FatTree) ([]int, error) {
	names, err := readNICs(f.nics)
	if err != nil {
		return nil, err
	}
	list, err := lanes.NICs(p, tree, names)
	if err != nil && f.nics != "" {
		return nil, fmt.Errorf("--nics %s: %w", f.nics, err)
	}
	if err != nil {
		return nil, fmt.Errorf("--fabric %s: %w by --nics", f.fabric.Topology, err)
	}
	return list, nil
}

// printLanes shows people how a plan lies on a fabric.
func printLanes(w io.Writer, p *lanes.Plan, stages int) {
	fmt.Fprintf(w, "fabric\t%s: %s in %s, %s; %d bytes a NIC, %s\n", command.Plural(p.Lanes, "lane", "lanes"), command.Plural(stages, "stage", "stages"),
		command.Plural(len(p.Parts), "part", "parts"), command.MS(1000*p.Seconds), p.Length, overText(p.Length, p.Bound))
	fmt.Fprintf(w, "\tevery transfer followed over the tables: no cable carries two of a part\n")
}
