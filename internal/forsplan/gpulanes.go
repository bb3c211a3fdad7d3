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
	"github.com/forsd/forsd/internal/nics"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// lanesFlags are the flags for the fabric between the NICs: a file, or a forsd that manages the
// fabric.
type lanesFlags struct {
	fabric command.Fabric
	forsd  string
	nics   string

	live    nics.Fabric
	cluster *nics.Cluster // nil without --forsd

	tree   *topology.FatTree // of --fabric, once it is read
	tables *lft.Tables
	hosts  []string // of --nics
}

func (f *lanesFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.fabric.Topology, "fabric", "", "the fat tree that joins the NICs, to pin stages on its lanes: output of ibnetdiscover, or an opensm-subnet.lst")
	fs.StringArrayVar(&f.fabric.Fail, "fail", nil, "with --fabric: take a node (description or GUID) or a cable (NODE/PORT) out; a comma separates several")
	registerForsd(cmd, &f.forsd)
	fs.StringVar(&f.nics, "nics", "", "with --fabric or --forsd: the hosts that are the NICs, a line each, server by server (default: all hosts, in the order of forsctl topology)")
	f.fabric.LMC.Register(cmd)
}

// ask asks the forsd of --forsd for the NICs of the servers, and adds the NICs that are down to
// those from other flags.
func (f *lanesFlags) ask(cmd *cobra.Command, servers int, bad *[]string) error {
	switch {
	case f.forsd == "" && f.fabric.Topology == "" && (f.nics != "" || len(f.fabric.Fail) > 0):
		return errors.New("--nics and --fail go with --fabric: name the fabric that joins the NICs")
	case f.forsd == "":
		return nil
	case f.fabric.Topology != "":
		return errors.New("--fabric and --forsd are both given: one of them says what joins the NICs")
	}
	names, err := readNICs(f.nics)
	if err != nil {
		return err
	}
	if f.live, err = dialForsd(f.forsd); err != nil {
		return err
	}
	if f.cluster, err = f.live.Cluster(cmd.Context(), names, servers); err != nil {
		return fmt.Errorf("--forsd %s: %w", f.forsd, err)
	}
	for _, note := range f.cluster.Notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "forsplan: %s\n", note)
	}
	*bad = append(*bad, f.cluster.Bad...)
	return nil
}

// pin pins a plan on the lanes of the fabric and checks it on the fabric's tables. It returns
// nil without a fabric.
func (f *lanesFlags) pin(ctx context.Context, p *gpu.Plan, m gpu.Model) (*lanes.Plan, error) {
	switch {
	case f.cluster != nil:
		pinned, err := f.live.Pin(context.WithoutCancel(ctx), f.cluster, p, m)
		if err != nil {
			return nil, fmt.Errorf("--forsd %s: %w", f.forsd, err)
		}
		return pinned, nil
	case f.fabric.Topology == "":
		return nil, nil
	}
	pinned, err := f.pinOffline(ctx, p, m)
	if err != nil {
		return nil, fmt.Errorf("--fabric %s: %w", f.fabric.Topology, err)
	}
	return pinned, nil
}

// load reads the fabric in a file, makes its tables, and finds the hosts that are the NICs.
func (f *lanesFlags) load(ctx context.Context) error {
	if f.tree != nil {
		return nil
	}
	tree, err := f.fabric.Tree()
	if err != nil {
		return err
	}
	if tree.Pods != nil {
		return errors.New("it is a fat tree of three levels, and stages are pinned on those of two")
	}
	if f.hosts, err = readNICs(f.nics); err != nil {
		return err
	}
	routed, err := planner.Route(context.WithoutCancel(ctx), tree, planner.Settings{})
	if err != nil {
		return err
	}
	f.tree, f.tables = tree, routed.Tables
	return nil
}

// pinOffline pins a plan on the fabric in a file, with the tables of forsd's plan for it.
func (f *lanesFlags) pinOffline(ctx context.Context, p *gpu.Plan, m gpu.Model) (*lanes.Plan, error) {
	if err := f.load(ctx); err != nil {
		return nil, err
	}
	hosts := f.hosts
	if len(hosts) == 0 {
		for _, s := range f.tree.Servers {
			hosts = append(hosts, f.tree.Hosts[s].GUID.String())
		}
		want := p.Ranks()
		if p.Site != nil {
			want = len(hosts)
		}
		if len(hosts) != want {
			return nil, fmt.Errorf("it has %d hosts, and the exchange %d NICs: name these by --nics", len(hosts), want)
		}
	}
	q, err := nics.Request(p, m, hosts)
	if err != nil {
		return nil, err
	}
	pinned, err := lanes.Pin(ctx, q, planner.Settings{}.Apart(f.tree))
	if err != nil {
		return nil, err
	}
	if err := pinned.Verify(q, f.tree, f.tables); err != nil {
		return nil, fmt.Errorf("the plan fails its check on the tables, which is a fault of forsplan: %w", err)
	}
	return pinned, nil
}

// readNICs reads --nics. Without the flag it returns nothing.
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

// printLanes prints how a plan uses a fabric.
func printLanes(w io.Writer, p *lanes.Plan, stages int) {
	fmt.Fprintf(w, "fabric\t%s: %s in %s, %s; %d bytes a NIC, %s\n", command.Plural(p.Lanes, "lane", "lanes"), command.Plural(stages, "stage", "stages"),
		command.Plural(len(p.Parts), "part", "parts"), command.Seconds(p.Seconds), p.Length, overText(p.Length, p.Bound))
	fmt.Fprintf(w, "\tevery transfer followed over the tables: no cable carries two of a part\n")
}
