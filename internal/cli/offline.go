package cli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/topology"
)

func offlineCommands() []*cobra.Command {
	cmds := []*cobra.Command{planCommand(), verifyCommand(), simulateCommand(), topologyCommand(), explainCommand(), diffCommand(), gpuCommand(), ocsCommand(), liquidCommand(), photonicCommand(), doctorCommand(), backupCommand(), restoreCommand(), supportCommand(), setupCommand()}
	for _, c := range cmds {
		c.GroupID = "offline"
	}
	return cmds
}

// fabricFlags are the flags by which every offline command is given a fabric.
type fabricFlags struct {
	lmcFlag
	topology string
	baseline string
	exclude  string
	fail     []string
	roles    []string
	names    string
}

// register adds the flags to a command.
func (f *fabricFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.topology, "topology", "", "output of ibnetdiscover, or an opensm-subnet.lst")
	fs.StringVar(&f.baseline, "baseline", "", "what the fabric is meant to be (default: what the topology shows before --fail)")
	fs.StringArrayVar(&f.fail, "fail", nil, "take a node (description or GUID) or a cable (NODE/PORT) out; repeatable")
	fs.StringVar(&f.names, "node-name-map", "", "a node-name map, as OpenSM and the diagnostic tools read it")
	fs.StringVar(&f.exclude, "exclude", "", "regular expression of host descriptions that take no part in the exchange")
	fs.StringArrayVar(&f.roles, "role", nil, "ROLE=REGEX: hosts with such descriptions are of that role, which is aggregation, gateway, storage or management, and take no part; repeatable")
	if err := cmd.RegisterFlagCompletionFunc("fail", failureNames); err != nil {
		panic(err) // the flag is not the one above
	}
	f.lmcFlag.register(cmd)
}

// lmcFlag are the flags by which the LMC is told.
type lmcFlag struct {
	flags    *pflag.FlagSet
	lmc      int
	guid2lid string
	anew     bool // LIDs may be numbered anew for the LMC
	numbered bool // they were
}

func (f *lmcFlag) register(cmd *cobra.Command) {
	f.flags = cmd.Flags()
	f.flags.StringVar(&f.guid2lid, "guid2lid", "", "OpenSM's guid2lid file, where the topology does not tell the LMC")
	f.flags.IntVar(&f.lmc, "lmc", 0, "the host ports' LMC, where the topology does not tell it")
}

// apply gives the fabric, read from path, the LMC of the flags.
func (f *lmcFlag) apply(fabric *topology.Fabric, path string, source topology.Source) error {
	given := f.flags.Changed("lmc")
	switch {
	case f.guid2lid != "" && given:
		return fmt.Errorf("--lmc and --guid2lid are both given: one of them tells the LMC")
	case f.guid2lid != "":
		data, err := command.ReadPath(f.guid2lid, command.MaxText)
		if err != nil {
			return err
		}
		ranges, err := topology.ReadGUID2LID(data)
		if err != nil {
			return fmt.Errorf("%s: %w", f.guid2lid, err)
		}
		if err := fabric.ApplyGUID2LID(ranges); err != nil {
			return fmt.Errorf("%s on %s: %w", f.guid2lid, path, err)
		}
	case given && (f.lmc < 0 || f.lmc > topology.MaxLMC):
		return fmt.Errorf("--lmc %d: want a number from 0 to %d", f.lmc, topology.MaxLMC)
	case given && f.anew:
		var err error
		if f.numbered, err = topology.PretendLMC(fabric, uint8(f.lmc)); err != nil {
			return fmt.Errorf("--lmc %d on %s: %w", f.lmc, path, err)
		}
	case given:
		if err := fabric.SetLMC(uint8(f.lmc)); err != nil {
			return fmt.Errorf("--lmc %d on %s: %w", f.lmc, path, err)
		}
	case source == topology.SourceSubnetLst:
		return fmt.Errorf("%s does not tell the LMC: give --lmc N or --guid2lid FILE", path)
	}
	return nil
}

// excluded is the expression of --exclude, nil where it is not given.
func (f *fabricFlags) excluded() (*regexp.Regexp, error) {
	if f.exclude == "" {
		return nil, nil
	}
	exclude, err := regexp.Compile(f.exclude)
	if err != nil {
		return nil, fmt.Errorf("--exclude: %w: want a regular expression such as ^login", err)
	}
	return exclude, nil
}

// read reads the topology as it is in the file, with its LMC.
func (f *fabricFlags) read() (*topology.Fabric, error) {
	data, err := readFile("topology", f.topology, "a file with the output of ibnetdiscover, or an opensm-subnet.lst")
	if err != nil {
		return nil, err
	}
	fabric, source, err := topology.Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.topology, err)
	}
	if err := f.apply(fabric, f.topology, source); err != nil {
		return nil, err
	}
	var names topology.NodeNames
	if f.names != "" {
		text, err := command.ReadPath(f.names, command.MaxText)
		if err != nil {
			return nil, err
		}
		names = topology.ReadNodeNames(text)
	}
	fabric = topology.Named(fabric, names)
	return fabric, f.setRoles(fabric)
}

// setRoles gives the nodes the roles of --role.
func (f *fabricFlags) setRoles(fabric *topology.Fabric) error {
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

// damage takes out what --fail names.
func (f *fabricFlags) damage(fabric *topology.Fabric) error {
	for _, spec := range f.fail {
		if _, err := fabric.Fail(spec); err != nil {
			return fmt.Errorf("--%w", err)
		}
	}
	return nil
}

// base reads the baseline, or takes the fabric for it.
func (f *fabricFlags) base(fabric *topology.Fabric) (*topology.Baseline, error) {
	if f.baseline == "" {
		base, err := topology.Recognise(fabric)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.topology, err)
		}
		return base, nil
	}
	data, err := command.ReadPath(f.baseline, command.MaxText)
	if err != nil {
		return nil, err
	}
	base, err := topology.ReadBaseline(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want a baseline as forsctl plan --write-baseline writes it", f.baseline, err)
	}
	return base, nil
}
