package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/rankorder"
	"github.com/forsd/forsd/topology"
)

// ranksReport is the output of forsctl job ranks --json.
type ranksReport struct {
	Hosts        []string `json:"hosts"` // in order of ranks
	RanksPerHost int      `json:"ranks_per_host"`
	// The largest number of transfers over a cable between switches in one direction, and lower
	// bounds for every order of these hosts: of a ring, and of the worst step of recursive
	// doubling.
	Ring          int `json:"ring"`
	RingBound     int `json:"ring_bound"`
	Doubling      int `json:"doubling"`
	DoublingBound int `json:"doubling_bound"`
}

// ranksFlags are the flags of forsctl job ranks.
type ranksFlags struct {
	fabric command.Fabric
	lfts   string
	hosts  jobFlags
	format string
}

// rankFormats are the formats of an order: one line for each host, or for each rank.
var rankFormats = map[string]func(w io.Writer, r *ranksReport){
	"hostfile": func(w io.Writer, r *ranksReport) {
		for _, h := range r.Hosts {
			fmt.Fprintf(w, "%s slots=%d\n", h, r.RanksPerHost)
		}
	},
	"rankfile": func(w io.Writer, r *ranksReport) {
		for i := range len(r.Hosts) * r.RanksPerHost {
			fmt.Fprintf(w, "rank %d=%s slot=%d\n", i, r.Hosts[i/r.RanksPerHost], i%r.RanksPerHost)
		}
	},
	"list": func(w io.Writer, r *ranksReport) {
		for i := range len(r.Hosts) * r.RanksPerHost {
			fmt.Fprintln(w, r.Hosts[i/r.RanksPerHost])
		}
	},
}

func jobRanksCommand() *cobra.Command {
	f := ranksFlags{}
	cmd := &cobra.Command{
		Use:   "ranks --topology FILE --lfts FILE [--hostfile FILE | --nodes LIST]",
		Short: "Order the hosts of a job so that rings and recursive doubling do not meet on a cable",
		Long: `Ranks prints the order in which the hosts of a job should have their ranks, so that as few
transfers as possible meet on a cable between switches when every rank sends to the next (a
ring), and in the steps of recursive doubling, in which ranks exchange whose numbers differ in
one bit. Packets go to base LIDs by the forwarding tables, which stay as they are. Standard
error has the transfers on the busiest cable, and a number below which no order is.

Without --hostfile and --nodes it orders all hosts of the fabric. A host is the first word of
a node description, with or without the domain, a port GUID (0x…) or a LID.

Formats: hostfile (Open MPI: mpirun --hostfile), rankfile (Open MPI: mpirun --rankfile), and
list, a line for each rank (MPICH: mpiexec -f; Slurm: SLURM_HOSTFILE with srun -m arbitrary).`,
		Example: `  forsctl job ranks --topology ibnetdiscover.txt --lfts plan/lfts.dump --hostfile hosts >ordered
  forsctl job ranks --topology ibnetdiscover.txt --lfts plan/lfts.dump --nodes 'node[001-048]' --format rankfile`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	registerFabric(&f.fabric, cmd)
	cmd.Flags().StringVar(&f.lfts, "lfts", "", "forwarding tables: lfts.dump, opensm-lfts.dump, or the output of dump_fts")
	f.hosts.registerHosts(cmd)
	cmd.Flags().StringVar(&f.format, "format", "hostfile", "hostfile, rankfile or list")
	return cmd
}

func (f *ranksFlags) run(cmd *cobra.Command) error {
	show := rankFormats[f.format]
	if show == nil {
		return fmt.Errorf("--format %s: want hostfile, rankfile or list", f.format)
	}
	fabric, all, err := f.fabric.Hosts()
	if err != nil {
		return err
	}
	tables, err := command.ReadTablesOf(cmd, fabric, f.fabric.Topology, f.lfts)
	if err != nil {
		return err
	}
	hosts, names, perHost, err := f.members(cmd, fabric, all)
	if err != nil {
		return err
	}
	done := command.Working(cmd, "ordering")
	o, err := rankorder.Find(cmd.Context(), fabric, tables, hosts, perHost)
	done()
	if err != nil {
		return err
	}
	report := ranksReport{nil, perHost, o.Ring, o.RingBound, o.Doubling, o.DoublingBound}
	for _, i := range o.Order {
		report.Hosts = append(report.Hosts, names[i])
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "ring: %d on the busiest cable (bound %d); recursive doubling: %d (bound %d)\n", o.Ring, o.RingBound, o.Doubling, o.DoublingBound)
	return command.Show(cmd, report, func(w io.Writer) { show(w, &report) })
}

// members returns those of all hosts that are of the job, and their names.
func (f *ranksFlags) members(cmd *cobra.Command, fabric *topology.Fabric, all []topology.EndPort) (hosts []topology.EndPort, names []string, perHost int, err error) {
	q := api.JobRequest{RanksPerHost: f.hosts.ranks}
	if err := f.hosts.nameHosts(cmd, &q); err != nil {
		return nil, nil, 0, err
	}
	perHost = max(1, q.RanksPerHost)
	if q.Hosts == nil {
		for i := range all {
			names = append(names, ib.FirstWord(fabric.Nodes[all[i].Node].Name))
		}
		return all, names, perHost, nil
	}
	by := map[ib.GUID]string{}
	for _, name := range q.Hosts {
		h, err := hostCalled(fabric, all, name)
		if err != nil {
			return nil, nil, 0, err
		}
		if other, twice := by[h.GUID]; twice {
			return nil, nil, 0, fmt.Errorf("hosts %q and %q are the same port, %s", other, name, h.GUID)
		}
		by[h.GUID] = name
		hosts, names = append(hosts, h), append(names, name)
	}
	return hosts, names, perHost, nil
}

// hostCalled returns the host port with a given name, port GUID or LID.
func hostCalled(fabric *topology.Fabric, hosts []topology.EndPort, name string) (topology.EndPort, error) {
	var found []topology.EndPort
	lid, noLID := strconv.ParseUint(name, 10, 16)
	guid, noGUID := ib.ParseGUID(name)
	for _, h := range hosts {
		described := ib.FirstWord(fabric.Nodes[h.Node].Name)
		switch {
		case noGUID == nil && strings.HasPrefix(name, "0x") && h.GUID == guid,
			noLID == nil && int(lid) >= int(h.LID) && int(lid) < int(h.LID)+1<<h.LMC,
			ib.SameHost(name, described):
			found = append(found, h)
		}
	}
	switch len(found) {
	case 0:
		return topology.EndPort{}, fmt.Errorf("no connected host has the name, port GUID or LID %q", name)
	case 1:
		return found[0], nil
	}
	return topology.EndPort{}, fmt.Errorf("host %q has %d ports in the fabric: name one by its port GUID", name, len(found))
}
