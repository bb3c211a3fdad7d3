package cli

import (
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"forsd/topology"
)

func offlineCommands() []*cobra.Command {
	cmds := []*cobra.Command{planCommand(), verifyCommand(), simulateCommand(), topologyCommand(), explainCommand(), diffCommand(), doctorCommand()}
	for _, c := range cmds {
		c.GroupID = "offline"
	}
	return cmds
}

// fabricFlags are the flags by which every offline command is given a fabric.
type fabricFlags struct {
	topology string
	baseline string
	guid2lid string
	exclude  string
	lmc      int
	fail     []string
}

// register adds the flags to a command.
func (f *fabricFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.topology, "topology", "", "output of ibnetdiscover, or an opensm-subnet.lst")
	fs.StringVar(&f.baseline, "baseline", "", "what the fabric is meant to be (default: what the topology shows before --fail)")
	fs.StringVar(&f.guid2lid, "guid2lid", "", "OpenSM's guid2lid file, where the topology does not tell the LMC")
	fs.IntVar(&f.lmc, "lmc", -1, "the host ports' LMC, where the topology does not tell it")
	fs.StringArrayVar(&f.fail, "fail", nil, "take a node (description or GUID) or a cable (NODE/PORT) out; repeatable")
	fs.StringVar(&f.exclude, "exclude", "", "regular expression of host descriptions that take no part in the exchange")
}

// load reads the fabric, applies --fail, and fits it to its baseline.
func (f *fabricFlags) load() (*topology.FatTree, error) {
	fabric, err := f.fabric()
	if err != nil {
		return nil, err
	}
	base, err := f.base(fabric)
	if err != nil {
		return nil, err
	}
	for _, spec := range f.fail {
		if _, err := fabric.Fail(spec); err != nil {
			return nil, fmt.Errorf("--fail %s: %w", spec, err)
		}
	}
	var exclude *regexp.Regexp
	if f.exclude != "" {
		if exclude, err = regexp.Compile(f.exclude); err != nil {
			return nil, fmt.Errorf("--exclude: %w", err)
		}
	}
	return topology.Fit(fabric, base, exclude)
}

// fabric reads the topology as it is in the file, with its LMC.
func (f *fabricFlags) fabric() (*topology.Fabric, error) {
	if f.topology == "" {
		return nil, fmt.Errorf("--topology is missing: name a file with the output of ibnetdiscover, or an opensm-subnet.lst")
	}
	data, err := os.ReadFile(f.topology)
	if err != nil {
		return nil, err
	}
	fabric, source, err := topology.Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.topology, err)
	}
	switch {
	case f.guid2lid != "":
		data, err := os.ReadFile(f.guid2lid)
		if err != nil {
			return nil, err
		}
		ranges, err := topology.ReadGUID2LID(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.guid2lid, err)
		}
		return fabric, fabric.ApplyGUID2LID(ranges)
	case f.lmc > topology.MaxLMC:
		return nil, fmt.Errorf("--lmc %d: it is at most %d", f.lmc, topology.MaxLMC)
	case f.lmc >= 0:
		return fabric, fabric.SetLMC(uint8(f.lmc))
	case source == topology.SourceSubnetLst:
		return nil, fmt.Errorf("%s does not tell the LMC: give --lmc N or --guid2lid FILE", f.topology)
	}
	return fabric, nil
}

func (f *fabricFlags) base(fabric *topology.Fabric) (*topology.Baseline, error) {
	if f.baseline == "" {
		base, err := topology.NewBaseline(fabric)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.topology, err)
		}
		return base, nil
	}
	data, err := os.ReadFile(f.baseline)
	if err != nil {
		return nil, err
	}
	base, err := topology.ReadBaseline(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.baseline, err)
	}
	return base, nil
}
