package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/hostlist"
)

func jobCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Give a set of hosts an exchange with a plan of its own",
		Long: `A job is an exchange among some of the servers. forsd gives it a plan of its own
over the same lanes, plans it anew whenever the fabric changes, and forgets it
when its lease ends. Jobs are named by number, or by the name they were given.`,
		Example: `  forsctl job create --nodes "$SLURM_JOB_NODELIST" --name "slurm-$SLURM_JOB_ID"
  forsctl job create --hostfile hosts --lease 2h
  forsctl job table slurm-1234 --out phases.bin
  forsctl job rm slurm-1234`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(jobCreateCommand(), jobListCommand(), jobShowCommand(), jobTableCommand(), jobRanksCommand(), jobRenewCommand(), jobRemoveCommand())
	return cmd
}

// jobFlags are the flags of forsctl job create.
type jobFlags struct {
	hostfile string
	nodes    string
	name     string
	ranks    int
	lease    time.Duration
	own      bool
	id       bool
	known    bool
}

func jobCreateCommand() *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use:   "create --hostfile FILE | --nodes LIST",
		Short: "Plan an exchange among some hosts",
		Long: `Create has forsd plan an exchange among the hosts of a host file (as of Open MPI:
"node001 slots=4"; of MPICH: "node001:4"; or a line for each process), or of a
list as Slurm writes it: "node[001-004,7],x[1-2]y[3-4]". A host is a node
description, its first word with or without the domain, a port GUID (0x…) or a LID.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := f.request(cmd)
			if err != nil {
				return err
			}
			return with(cmd, func(ctx context.Context, c *api.Client) error { return f.print(cmd)(c.CreateJob(ctx, q)) })
		},
	}
	f.registerHosts(cmd)
	cmd.Flags().StringVar(&f.name, "name", "", "a second way to name the job: a letter, then letters, digits and . _ - :")
	cmd.Flags().BoolVar(&f.own, "own-lanes", false, "give the job lanes that no other job uses")
	leaseFlag(cmd, &f.lease)
	cmd.Flags().BoolVar(&f.id, "id", false, "print the job's number and nothing else")
	cmd.Flags().BoolVar(&f.known, "skip-unknown", false, "leave out hosts that the fabric does not have, instead of refusing the job")
	return cmd
}

// registerHosts adds the flags that name hosts.
func (f *jobFlags) registerHosts(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.hostfile, "hostfile", "", "host file of an MPI launcher; - for standard input")
	cmd.Flags().StringVar(&f.nodes, "nodes", "", `hosts as Slurm lists them, for example "$SLURM_JOB_NODELIST"`)
	cmd.Flags().IntVar(&f.ranks, "ranks-per-host", 0, "processes of a host (default what the host file says, or 1)")
}

func leaseFlag(cmd *cobra.Command, lease *time.Duration) {
	*lease = api.DefaultLease
	cmd.Flags().Var((*command.Duration)(lease), "lease", "how long the job lasts unless it is renewed, such as 12h or 2d")
}

// request builds a request from the flags.
func (f *jobFlags) request(cmd *cobra.Command) (q api.JobRequest, err error) {
	q = api.JobRequest{Name: f.name, RanksPerHost: f.ranks, SkipUnknown: f.known, OwnLanes: f.own}
	if q.LeaseSeconds, err = seconds(f.lease); err != nil {
		return q, err
	}
	if f.hostfile == "" && f.nodes == "" {
		return q, fmt.Errorf("--hostfile or --nodes is missing: name the hosts of the job")
	}
	return q, f.nameHosts(cmd, &q)
}

// nameHosts adds the hosts that the flags name to a request.
func (f *jobFlags) nameHosts(cmd *cobra.Command, q *api.JobRequest) (err error) {
	switch {
	case f.hostfile != "" && f.nodes != "":
		return fmt.Errorf("--hostfile and --nodes are both given: one of them names the hosts")
	case cmd.Flags().Changed("ranks-per-host") && f.ranks < 1:
		return fmt.Errorf("--ranks-per-host %d: want 1 at least", f.ranks)
	case f.nodes != "":
		q.Hosts, err = hostlist.Expand(f.nodes)
		return err
	case f.hostfile != "":
		return f.readHosts(cmd, q)
	}
	return nil
}

// readHosts reads the host file. The request gives every host as many processes as the host
// with the most.
func (f *jobFlags) readHosts(cmd *cobra.Command, q *api.JobRequest) error {
	var data []byte
	var err error
	if f.hostfile == "-" {
		data, err = command.ReadAtMost(cmd.InOrStdin(), command.MaxText, "standard input")
	} else {
		data, err = command.ReadPath(f.hostfile, command.MaxText)
	}
	if err != nil {
		return err
	}
	hosts, err := hostlist.ReadFile(data, f.hostfile)
	if err != nil {
		return err
	}
	most := 0
	for _, h := range hosts {
		q.Hosts = append(q.Hosts, h.Name)
		most = max(most, h.Slots)
	}
	q.RanksPerHost = cmp.Or(q.RanksPerHost, most)
	return nil
}

// seconds returns a lease in the API's unit.
func seconds(lease time.Duration) (int64, error) {
	if lease < time.Second || lease > api.MaxLease || lease%time.Second != 0 {
		return 0, fmt.Errorf("--lease %s: want whole seconds, 1s to %s", lease, api.MaxLease)
	}
	return int64(lease / time.Second), nil
}

// print returns a function that prints the job in an answer.
func (f *jobFlags) print(cmd *cobra.Command) func(*api.Job, error) error {
	return func(j *api.Job, err error) error {
		switch {
		case err != nil:
			return err
		case f.id && !command.WantsJSON(cmd):
			_, err = fmt.Fprintln(cmd.OutOrStdout(), j.ID)
			return err
		}
		return command.Show(cmd, j, func(w io.Writer) { printJob(w, j) })
	}
}

func printJob(w io.Writer, j *api.Job) {
	fmt.Fprintf(w, "job\t%d%s\n", j.ID, command.InBrackets(j.Name))
	fmt.Fprintf(w, "epoch\t%d, published %s\n", j.Epoch, command.Clock(j.PublishedAt))
	fmt.Fprintf(w, "plan\t%d phases by engine %s (bound %d by %s, gap %d)\n", j.Phases, j.Engine, j.LowerBound, j.Certificate, j.Gap)
	if b := j.Base; b != nil {
		way := "as the tables route them"
		if b.Routed {
			way = "routed by its own plan"
		}
		fmt.Fprintf(w, "base LIDs\t%d phases (bound %d, gap %d), %s\n", b.Phases, b.LowerBound, b.Gap, way)
	}
	if own := ownLanes(j); own != "" {
		fmt.Fprintf(w, "lanes\t%s\n", own)
	}
	fmt.Fprintf(w, "servers\t%d of %s, %s each\n", j.Servers, command.Plural(len(j.Hosts), "host", "hosts"), command.Plural(j.RanksPerHost, "rank", "ranks"))
	fmt.Fprintf(w, "lease\tuntil %s\n", command.Clock(j.Expires))
	if len(j.Unknown) > 0 {
		fmt.Fprintf(w, "unknown\t%s: left out\n", hostlist.Compress(j.Unknown))
	}
	for _, h := range j.Missing {
		fmt.Fprintf(w, "missing\t%s (%s)\n", h.Name, h.GUID)
	}
	for _, x := range j.Warnings {
		fmt.Fprintf(w, "warning\t%s: %s\n", x.Code, x.Text)
	}
}

// ownLanes describes the lanes that a job has to itself, or returns "" if it did not request
// any.
func ownLanes(j *api.Job) string {
	count := 0
	for _, l := range j.Lanes {
		count += len(l.Spines)
	}
	switch {
	case count > 0:
		return fmt.Sprintf("%d of its own, at %s", count, command.Plural(len(j.Lanes), "leaf", "leaves"))
	case j.OwnLanes:
		return "none of its own: it needs none on one leaf, or none are to be had (job-shares-lanes)"
	}
	return ""
}

func jobListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the jobs",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Answer(cmd, with, func(ctx context.Context, c *api.Client) (api.JobList, error) {
				jobs, err := c.Jobs(ctx)
				return api.JobList{Jobs: append([]api.Job{}, jobs...)}, err
			}, func(w io.Writer, all api.JobList) {
				fmt.Fprintln(w, "job\tname\tepoch\tservers\tphases\tbound\tbase LIDs\town lanes\tengine\tlease until\tremarks")
				for i := range all.Jobs {
					j, base := &all.Jobs[i], "-"
					if j.Base != nil {
						base = strconv.Itoa(j.Base.Phases)
					}
					fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", j.ID, cmp.Or(j.Name, "-"), j.Epoch, j.Servers, j.Phases, j.LowerBound, base, lanesOf(j), j.Engine, command.Clock(j.Expires), remarks(j))
				}
			})
		},
	}
}

// lanesOf returns "yes", "no" or "-" for whether a job has lanes of its own.
func lanesOf(j *api.Job) string {
	switch {
	case len(j.Lanes) > 0:
		return "yes"
	case j.OwnLanes:
		return "no"
	}
	return "-"
}

// remarks summarizes the problems of a job in a few words.
func remarks(j *api.Job) string {
	var out []string
	if n := len(j.Missing); n > 0 {
		out = append(out, command.Plural(n, "host missing", "hosts missing"))
	}
	for _, w := range j.Warnings {
		out = append(out, w.Code)
	}
	return cmp.Or(strings.Join(out, ", "), "-")
}

func jobShowCommand() *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use: "show JOB", ValidArgsFunction: atMost(1, jobNames),
		Short: "Show one job",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, c *api.Client) error { return f.print(cmd)(c.Job(ctx, args[0])) })
		},
	}
	cmd.Flags().BoolVar(&f.id, "id", false, "print the job's number and nothing else")
	return cmd
}

func jobRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm JOB…", ValidArgsFunction: jobNames,
		Short: "End jobs",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, c *api.Client) error {
				ended := api.JobList{Jobs: []api.Job{}}
				for _, name := range args {
					j, err := c.RemoveJob(ctx, name)
					if err != nil {
						return err
					}
					if ended.Jobs = append(ended.Jobs, *j); !command.WantsJSON(cmd) {
						fmt.Fprintf(cmd.OutOrStdout(), "%s has ended\n", j)
					}
				}
				if command.WantsJSON(cmd) {
					return command.PrintJSON(cmd, ended)
				}
				return nil
			})
		},
	}
}

func jobRenewCommand() *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use: "renew JOB [--lease TIME]", ValidArgsFunction: atMost(1, jobNames),
		Short: "Let a job's lease end so long from now",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := seconds(f.lease); err != nil {
				return err
			}
			return with(cmd, func(ctx context.Context, c *api.Client) error {
				return f.print(cmd)(c.RenewJob(ctx, args[0], f.lease))
			})
		},
	}
	leaseFlag(cmd, &f.lease)
	return cmd
}

func jobTableCommand() *cobra.Command {
	var out string
	var csv, base bool
	cmd := &cobra.Command{
		Use: "table JOB --out FILE", ValidArgsFunction: atMost(1, jobNames),
		Short: "Fetch the phase table of a job",
		Long: `Table writes the table of a job's plan in force to a file, whole or not at all:
the binary table that ranks map into memory, or with --csv the same transfers as
text. FILE - is standard output.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return savePhases(cmd, out, func(ctx context.Context, c *api.Client) ([]byte, uint64, error) {
				return c.JobPhases(ctx, args[0], csv, base)
			})
		},
	}
	cmd.Flags().BoolVar(&csv, "csv", false, "as text instead of the binary table")
	cmd.Flags().BoolVar(&base, "base", false, "the plan for programs that send to base LIDs")
	cmd.Flags().StringVar(&out, "out", "", "the file to write, - for standard output")
	return cmd
}
