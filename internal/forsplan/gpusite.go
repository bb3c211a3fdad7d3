package forsplan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/nics"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// siteFlags are the flags for servers that are not all alike.
type siteFlags struct {
	file       string
	nics, gpus []string
	rails      bool
}

func (f *siteFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.file, "site", "", "what each server has, as JSON (docs/gpu.md), in place of --gpus-per-server")
	fs.BoolVar(&f.rails, "rails", false, "NICs reach only those of their own number in other servers")
	f.registerFailures(cmd)
}

func (f *siteFlags) registerFailures(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringSliceVar(&f.nics, "bad-nic", nil, "a NIC that is dead, SERVER:NIC, or slower, SERVER:NIC:PERCENT, counted from 0; may be repeated")
	fs.StringSliceVar(&f.gpus, "dead-gpu", nil, "a GPU that is dead, SERVER:GPU: it has no traffic, and its NIC cannot be used; may be repeated")
}

// read reads --site, and returns nil without it. With --site the size of the traffic matrix
// gives the number of GPUs.
func (f *siteFlags) read(t *trafficFlags) (*gpu.Site, error) {
	switch {
	case f.file == "":
		return nil, nil
	case f.rails || t.gpusPerServer != 0:
		return nil, errors.New("--site says what each server has: --gpus-per-server and --rails do not go with it")
	}
	data, err := command.ReadFlag("site", f.file, "a file that says what each server has")
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	site := &gpu.Site{}
	if err := d.Decode(site); err != nil {
		return nil, fmt.Errorf("--site %s: %w", f.file, err)
	}
	t.gpusPerServer = 1 // the matrix has a row for each GPU
	return site, nil
}

// printSite describes the site of a plan, and why the plan cannot be shorter.
func printSite(w io.Writer, r *gpu.Report) {
	gpus, channels := 0, 0
	for at, x := range r.Places {
		if x.GPU >= 0 && x.Home == at {
			gpus++
		}
		if x.NIC >= 0 {
			channels++
		}
	}
	fmt.Fprintf(w, "site\t%s, %s, %s of speed %d\n", command.Plural(r.Servers, "server", "servers"), command.Plural(gpus, "GPU", "GPUs"), command.Plural(channels, "channel", "channels"), r.Unit)
	c := r.Certificate
	switch {
	case len(c.Prices) > 0:
		fmt.Fprintf(w, "certificate\tno plan is shorter than %d bytes a channel, by %s on rails\n", r.Bound, command.Plural(len(c.Prices), "price", "prices"))
	case c.Receives:
		fmt.Fprintf(w, "certificate\tserver %d receives %d bytes over %s: no plan is shorter than %d\n", c.Server, c.Bytes, command.Plural(int(c.Channels), "channel", "channels"), r.Bound)
	default:
		fmt.Fprintf(w, "certificate\tserver %d sends %d bytes over %s: no plan is shorter than %d\n", c.Server, c.Bytes, command.Plural(int(c.Channels), "channel", "channels"), r.Bound)
	}
}

// printExchange prints a plan.
func printExchange(w io.Writer, r *gpu.Report, elapsed time.Duration) {
	if r.Certificate == nil {
		fmt.Fprintf(w, "cluster\t%s with %s each\n", command.Plural(r.Servers, "server", "servers"), command.Plural(r.GPUs, "GPU", "GPUs"))
	} else {
		printSite(w, r)
	}
	grain := ""
	if r.Grain > 1 {
		grain = fmt.Sprintf(", grain %d", r.Grain)
	}
	fmt.Fprintf(w, "mode\t%s%s\n", r.Mode, grain)
	fmt.Fprintf(w, "length\t%d bytes a NIC, %s\n", r.Length, overText(r.Length, r.Bound))
	if s := r.Sent; s != nil {
		fmt.Fprintf(w, "sent by NICs\t%d bytes, once to each server; once to each GPU %s, to each expert %s\n", s[gpu.ToServer], timesText(s[gpu.ToGPU], s[gpu.ToServer]), timesText(s[gpu.ToExpert], s[gpu.ToServer]))
	}
	fmt.Fprintf(w, "stages\t%d\n", len(r.Stages))
	fmt.Fprintf(w, "moved inside servers\t%d bytes before, %d after\n", r.MovesBefore, r.MovesAfter)
	p := &r.Predicted
	fmt.Fprintf(w, "buffers\t%d bytes at most to send from, or to receive into, over a NIC\n", r.NICBuffer)
	fmt.Fprintf(w, "predicted\t%s: %s before the stages, %s of stages, %s waiting for moves beside them, %s after\n",
		command.Seconds(p.Total), command.Seconds(p.Before), command.Seconds(p.Stages), command.Seconds(p.Beside), command.Seconds(p.After))
	if o := r.Outlook; o != nil && !o.Complete {
		fmt.Fprintf(w, "planning longer\tmay gain %s at most: no plan takes less than %s\n", command.Seconds(p.Total-o.Least), command.Seconds(o.Least))
	}
	carried := "byte by byte: every message arrives"
	if r.Returns {
		carried = "token by token: every sum is complete"
	} else if r.Sent != nil {
		carried = "token by token: every token arrives"
	}
	fmt.Fprintf(w, "planned in\t%s, and carried out %s\n", command.Took(elapsed), carried)
}

// timesText compares an amount with a smaller one.
func timesText(v, than int64) string {
	return fmt.Sprintf("%.2f times", float64(v)/float64(max(1, than)))
}

// overText compares a length with its bound.
func overText(length, bound int64) string {
	switch {
	case length <= bound:
		return "the least there can be"
	case bound == 0 || length-bound < bound/1000:
		return fmt.Sprintf("%d more than the bound of %d", length-bound, bound)
	}
	return fmt.Sprintf("%.1f %% over the bound of %d", 100*float64(length-bound)/float64(bound), bound)
}

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
