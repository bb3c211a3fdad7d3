package command

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// Fabric is a fabric described by flags.
type Fabric struct {
	LMC
	Topology string   // a file
	Baseline string   // a file
	Exclude  string   // a regular expression
	Fail     []string // in the format of topology.Fabric.Fail
	Rails    []string // what Fit says about the rails that it recognised
	exchange string   // a file, or rails
	roles    []string
	names    string
}

// Register adds all of the flags to a command.
func (f *Fabric) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.Topology, "topology", "", "output of ibnetdiscover, an opensm-subnet.lst, a file of ibdiagnet (ibnetdiscover, lst, db_csv) or a .topo file")
	fs.StringVar(&f.Baseline, "baseline", "", "what the fabric is meant to be (default: what the topology shows before --fail)")
	fs.StringArrayVar(&f.Fail, "fail", nil, "take a node (description or GUID) or a cable (NODE/PORT) out; a comma separates several")
	fs.StringVar(&f.names, "node-name-map", "", "a node-name map, as OpenSM and the diagnostic tools read it")
	fs.StringVar(&f.Exclude, "exclude", "", "regular expression of host descriptions that take no part in the exchange")
	fs.StringArrayVar(&f.roles, "role", nil, "ROLE=REGEX: hosts with such descriptions are of that role, which is aggregation, gateway, storage or management, and take no part; repeatable")
	fs.StringVar(&f.exchange, "exchange", "", "plan exchanges within groups: rails (one adapter of each host), or a CSV file with the header group,server")
	f.LMC.Register(cmd)
}

// TakesFile makes a command accept the topology's file as its argument too.
func (f *Fabric) TakesFile(cmd *cobra.Command) {
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return fmt.Errorf("%q is one argument too many: want the topology's file alone", args[1])
		case len(args) == 1 && f.Topology != "":
			return fmt.Errorf("both %q and --topology %s name a topology: give one", args[0], f.Topology)
		case len(args) == 1:
			f.Topology = args[0]
		}
		return nil
	}
}

// LMC is the host ports' LMC described by flags.
type LMC struct {
	flags    *pflag.FlagSet
	Value    int
	guid2lid string
	Renumber bool // Read may renumber LIDs for the LMC of --lmc
	Numbered bool // Read has renumbered them
}

// Register adds --lmc and --guid2lid to a command.
func (f *LMC) Register(cmd *cobra.Command) {
	f.flags = cmd.Flags()
	f.flags.StringVar(&f.guid2lid, "guid2lid", "", "OpenSM's guid2lid file, where the topology does not tell the LMC")
	f.flags.IntVar(&f.Value, "lmc", 0, "the host ports' LMC, where the topology does not tell it")
}

// IgnoreUnlessGiven lets Read do without the LMC if no flag gives it, for commands that
// only need base LIDs.
func (f *LMC) IgnoreUnlessGiven() error {
	if f.flags.Changed("lmc") || f.guid2lid != "" {
		return nil
	}
	return f.flags.Set("lmc", "0")
}

// apply sets the LMC of the fabric, read from path, according to the flags.
func (f *LMC) apply(fabric *topology.Fabric, path string, source topology.Source) error {
	given := f.flags.Changed("lmc")
	switch {
	case f.guid2lid != "" && given:
		return fmt.Errorf("--lmc and --guid2lid are both given: one of them tells the LMC")
	case f.guid2lid != "":
		ranges, err := Parse(f.guid2lid, topology.ReadGUID2LID)(ReadPath(f.guid2lid, MaxText))
		if err != nil {
			return err
		}
		if err := fabric.ApplyGUID2LID(ranges); err != nil {
			return fmt.Errorf("%s on %s: %w", f.guid2lid, path, err)
		}
	case given && (f.Value < 0 || f.Value > ib.MaxLMC):
		return fmt.Errorf("--lmc %d: want a number from 0 to %d", f.Value, ib.MaxLMC)
	case given && (f.Renumber || source == topology.SourceTopo):
		var err error
		if f.Numbered, err = topology.PretendLMC(fabric, uint8(f.Value)); err != nil {
			return fmt.Errorf("--lmc %d on %s: %w", f.Value, path, err)
		}
	case given:
		if err := fabric.SetLMC(uint8(f.Value)); err != nil {
			return fmt.Errorf("--lmc %d on %s: %w", f.Value, path, err)
		}
	case source == topology.SourceSubnetLst:
		return fmt.Errorf("%s does not tell the LMC: give --lmc N or --guid2lid FILE", path)
	}
	return nil
}

// Excluded returns the expression of --exclude, or nil without the flag.
func (f *Fabric) Excluded() (*regexp.Regexp, error) {
	if f.Exclude == "" {
		return nil, nil
	}
	exclude, err := regexp.Compile(f.Exclude)
	if err != nil {
		return nil, fmt.Errorf("--exclude: %w: want a regular expression such as ^login", err)
	}
	return exclude, nil
}

// Read reads the topology from the file, with its LMC.
func (f *Fabric) Read() (*topology.Fabric, error) {
	data, err := ReadFlag("topology", f.Topology, "a file with the output of ibnetdiscover, an opensm-subnet.lst, or a file of ibdiagnet")
	if err != nil {
		return nil, err
	}
	fabric, source, err := topology.Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Topology, err)
	}
	if err := f.apply(fabric, f.Topology, source); err != nil {
		return nil, err
	}
	var names topology.NodeNames
	if f.names != "" {
		text, err := ReadPath(f.names, MaxText)
		if err != nil {
			return nil, err
		}
		names = topology.ReadNodeNames(text)
	}
	fabric = topology.Named(fabric, names)
	return fabric, f.setRoles(fabric)
}

// setRoles assigns the roles of --role to the nodes.
func (f *Fabric) setRoles(fabric *topology.Fabric) error {
	var roles topology.Roles
	for _, flag := range f.roles {
		name, text, _ := strings.Cut(flag, "=")
		pattern, err := regexp.Compile(text)
		if err != nil {
			return fmt.Errorf("--role %s: %w", name, err)
		}
		switch name {
		case topology.AggregationNode.String():
			roles.Aggregation = pattern
		case topology.GatewayNode.String():
			roles.Gateway = pattern
		case topology.StorageNode.String():
			roles.Storage = pattern
		case topology.ManagementNode.String():
			roles.Management = pattern
		default:
			return fmt.Errorf("--role %s: want aggregation, gateway, storage or management, then = and a regular expression", flag)
		}
	}
	fabric.SetRoles(roles)
	return nil
}

// Damage removes the parts that --fail names.
func (f *Fabric) Damage(fabric *topology.Fabric) error {
	for _, spec := range f.Fail {
		if _, err := fabric.Fail(spec); err != nil {
			return fmt.Errorf("--%w", err)
		}
	}
	return nil
}

// Base reads the baseline, or derives it from the fabric.
func (f *Fabric) Base(fabric *topology.Fabric) (*topology.Baseline, error) {
	if f.Baseline == "" {
		base, err := topology.Recognise(fabric)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Topology, err)
		}
		return base, nil
	}
	data, err := ReadPath(f.Baseline, MaxText)
	if err != nil {
		return nil, err
	}
	base, err := topology.ReadBaseline(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want a baseline as forsctl plan --write-baseline writes it", f.Baseline, err)
	}
	return base, nil
}

// Tree loads a fat tree: the fabric after --fail, fitted to its baseline before --fail. One of
// three levels has Pods.
func (f *Fabric) Tree() (*topology.FatTree, error) {
	fabric, err := f.Read()
	if err != nil {
		return nil, err
	}
	base, err := f.Base(fabric)
	if err != nil {
		return nil, err
	}
	if err := f.Damage(fabric); err != nil {
		return nil, err
	}
	return f.Fit(fabric, base)
}

// Hosts loads a fabric of any shape after --fail, and its hosts but for those of --exclude.
func (f *Fabric) Hosts() (fabric *topology.Fabric, hosts []topology.EndPort, err error) {
	if fabric, err = f.Read(); err == nil {
		err = f.Damage(fabric)
	}
	if err == nil {
		hosts, err = f.Without(fabric, fabric.ConnectedHosts())
	}
	return fabric, hosts, err
}

// Fit returns a fabric, seen through a baseline, as a fat tree.
func (f *Fabric) Fit(fabric *topology.Fabric, base *topology.Baseline) (*topology.FatTree, error) {
	exclude, err := f.Excluded()
	if err != nil {
		return nil, err
	}
	var tree *topology.FatTree
	if base.Pods == nil {
		tree, err = topology.Fit(fabric, base, exclude)
	} else if pods, bad := topology.FitPods(fabric, base.Pods, exclude); bad == nil {
		tree = pods.Exchange()
	} else {
		err = bad
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Topology, err)
	}
	if f.exchange == "" {
		return tree, nil
	}
	return f.divide(tree)
}

// divide returns the tree with the exchanges of --exchange.
func (f *Fabric) divide(tree *topology.FatTree) (*topology.FatTree, error) {
	groups := planner.Groups{Rails: f.exchange == "rails"}
	if !groups.Rails {
		data, err := ReadPath(f.exchange, MaxText)
		if err != nil {
			return nil, err
		}
		if groups, err = planner.ReadGroups(data); err != nil {
			return nil, fmt.Errorf("--exchange %s: %w", f.exchange, err)
		}
	}
	tree, notes, err := groups.Divide(tree, false)
	if err != nil {
		return nil, fmt.Errorf("--exchange %s: %s: %w", f.exchange, f.Topology, err)
	}
	f.Rails = notes
	return tree, nil
}

// Without removes the hosts that --exclude names.
func (f *Fabric) Without(fabric *topology.Fabric, hosts []topology.EndPort) ([]topology.EndPort, error) {
	exclude, err := f.Excluded()
	if err != nil || exclude == nil {
		return hosts, err
	}
	return slices.DeleteFunc(hosts, func(h topology.EndPort) bool { return exclude.MatchString(fabric.Nodes[h.Node].Name) }), nil
}
