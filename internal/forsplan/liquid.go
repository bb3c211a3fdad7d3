package forsplan

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/hostlist"
	"github.com/forsd/forsd/liquid"
	"github.com/forsd/forsd/phasetable"
)

func liquidCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use:   "liquid",
		Short: "Schedule exchanges without congestion on any topology and any routing",
		Long: `The commands of liquid schedule transfers over the routes that there are: of a network
in a file, or of a running fabric's forwarding tables, whatever its shape. In a liquid
schedule every step uses every bottleneck, so it takes no longer than these must.`,
	}, "say what to do: schedule or teams",
		liquidScheduleCommand(), liquidTeamsCommand())
}

// liquidInput are the flags for transfers.
type liquidInput struct {
	fabric     command.Fabric
	network    string
	allocation string
	lfts       string
	hosts      string
	pairs      string
}

func (f *liquidInput) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.network, "network", "", "a network with static routes, in JSON (docs/liquid.md)")
	fs.StringVar(&f.allocation, "allocation", "", "nodes on each switch of the network, the first ones of each: 4,4,0,3 (default: all)")
	fs.StringVar(&f.fabric.Topology, "topology", "", "instead of a network: output of ibnetdiscover, or an opensm-subnet.lst")
	fs.StringVar(&f.lfts, "lfts", "", "forwarding tables of the fabric: lfts.dump, opensm-lfts.dump, or the output of dump_fts")
	fs.StringArrayVar(&f.fabric.Fail, "fail", nil, "take a node (description or GUID) or a cable (NODE/PORT) of the fabric out; a comma separates several")
	fs.StringVar(&f.fabric.Exclude, "exclude", "", "regular expression of host descriptions that take no part")
	fs.StringVar(&f.hosts, "hosts", "", "only these hosts of the fabric: names, GUIDs or a hostlist, node[01-16]")
	fs.StringVar(&f.pairs, "pairs", "", "only these pairs: a file of lines SOURCE,DESTINATION (default: each to each)")
	f.fabric.LMC.Register(cmd)
}

// transfers is the input of a schedule.
type transfers struct {
	traffic *liquid.Traffic
	network *liquid.Network // or the network
	routes  *liquid.Routes
}

// linkName returns a readable name of a link.
func (t *transfers) linkName(l liquid.Link) string {
	if t.routes != nil {
		return t.routes.LinkName(l)
	}
	return cmp.Or(t.network.Links[l], fmt.Sprintf("link %d", l))
}

// read reads the input.
func (f *liquidInput) read(cmd *cobra.Command) (*transfers, error) {
	onFabric := f.fabric.Topology != "" || f.lfts != ""
	switch {
	case f.network != "" && onFabric:
		return nil, errors.New("--network is given, and --topology or --lfts as well: the routes are of one of them")
	case f.network == "" && !onFabric:
		return nil, errors.New("--network is missing: name a network in JSON, or give --topology and --lfts of a fabric")
	case onFabric && f.allocation != "":
		return nil, errors.New("--allocation goes with --network: --hosts or --exclude choose hosts of a fabric")
	case !onFabric && (f.hosts != "" || f.fabric.Exclude != "" || len(f.fabric.Fail) > 0):
		return nil, errors.New("--hosts, --exclude and --fail go with --topology: --allocation chooses nodes of a network")
	case onFabric:
		return f.readFabric(cmd)
	}
	return f.readNetwork()
}

func (f *liquidInput) readNetwork() (*transfers, error) {
	data, err := command.ReadPath(f.network, command.MaxText)
	if err != nil {
		return nil, err
	}
	n, err := liquid.ParseNetwork(data, f.network)
	if err != nil {
		return nil, err
	}
	t := &transfers{network: n}
	if f.pairs != "" {
		if f.allocation != "" {
			return nil, errors.New("--pairs and --allocation are both given: one of them says who sends")
		}
		words, err := readPairs(f.pairs)
		if err != nil {
			return nil, err
		}
		pairs, err := n.Pairs(words)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.pairs, err)
		}
		t.traffic, err = n.Exchange(pairs)
		return t, err
	}
	alloc := n.Capacity()
	if f.allocation != "" {
		if alloc, err = readAllocation(f.allocation); err != nil {
			return nil, err
		}
	}
	nodes, err := n.Allocated(alloc)
	if err != nil {
		return nil, fmt.Errorf("--allocation: %w", err)
	}
	t.traffic, err = n.AllToAll(nodes)
	return t, err
}

// readAllocation reads numbers separated by commas.
func readAllocation(text string) ([]int, error) {
	var alloc []int
	for i, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("--allocation: %.40q in place %d: want the number of nodes on each switch, as 4,4,0,3", word, i+1)
		}
		alloc = append(alloc, n)
	}
	return alloc, nil
}

func readPairs(path string) ([][2]string, error) {
	data, err := command.ReadPath(path, command.MaxText)
	if err != nil {
		return nil, err
	}
	return liquid.ParsePairs(data, path)
}

func (f *liquidInput) readFabric(cmd *cobra.Command) (*transfers, error) {
	// Paths use base LIDs, so the LMC does not matter.
	if err := f.fabric.IgnoreUnlessGiven(); err != nil {
		return nil, err
	}
	fabric, err := f.fabric.Read()
	if err != nil {
		return nil, err
	}
	tables, err := command.ReadTablesOf(cmd, fabric, f.fabric.Topology, f.lfts)
	if err != nil {
		return nil, err
	}
	if err := f.fabric.Damage(fabric); err != nil {
		return nil, err
	}
	hosts := fabric.ConnectedHosts()
	if f.hosts != "" {
		names, err := hostlist.Expand(f.hosts)
		if err != nil {
			return nil, fmt.Errorf("--hosts: %w", err)
		}
		if hosts, err = liquid.NewDirectory(fabric, hosts).Only(names); err != nil {
			return nil, fmt.Errorf("--hosts: %w", err)
		}
	}
	if hosts, err = f.fabric.Without(fabric, hosts); err != nil {
		return nil, err
	}
	var pairs []liquid.Pair
	if f.pairs != "" {
		words, err := readPairs(f.pairs)
		if err != nil {
			return nil, err
		}
		if pairs, err = liquid.NewDirectory(fabric, hosts).Pairs(words); err != nil {
			return nil, fmt.Errorf("%s: %w", f.pairs, err)
		}
	}
	routes, err := liquid.Trace(fabric, tables, hosts, pairs)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", f.lfts, f.fabric.Topology, err)
	}
	return &transfers{traffic: routes.Traffic, routes: routes}, nil
}

// liquidScheduleFlags are the flags of forsplan liquid schedule.
type liquidScheduleFlags struct {
	liquidInput
	options liquid.Options
	time    time.Duration
	compare bool
	out     string
	svg     svgFlag
}

func liquidScheduleCommand() *cobra.Command {
	f := &liquidScheduleFlags{}
	cmd := &cobra.Command{
		Use:   "schedule --network FILE | --topology FILE --lfts FILE",
		Short: "Find a liquid schedule, prove that there is none, or give the best in the time",
		Long: `Schedule puts transfers into steps so that no two of a step share a link. Λ, the
largest number of transfers on a link, is the least that any schedule needs; one of Λ
steps is liquid. It says which method answered: round-robin, where that happens to be
liquid; the search over full teams, which may also prove that there is no liquid
schedule; the colouring; or Dsatur. The schedule is verified before it is printed, on
a fabric by walking every transfer through the tables.

On a fabric, every host sends to each other one over the path of the base LID. --out
writes the schedule as phases.csv, with lane −1, for forsctl simulate and others.

Where links have different speeds, a step lasts as long as its slowest transfer, and
what is faster goes along where it has room.`,
		Example: `  forsplan liquid schedule --network swiss-t1.json --allocation 4,4,0,3,1,4,2,4 --json
  forsplan liquid schedule --topology ibnetdiscover.txt --lfts tables.dump --out phases.csv
  forsplan liquid schedule --topology ibnetdiscover.txt --lfts tables.dump --hosts 'node[01-16]' --time 5s --compare`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd)
	fs := cmd.Flags()
	fs.StringVar((*string)(&f.options.Method), "method", string(liquid.MethodAuto), "auto, search, colouring, dsatur, round-robin, random or first-fit")
	fs.DurationVar(&f.time, "time", 30*time.Second, "how long to look; then the best that was found is the answer")
	fs.Int64Var(&f.options.Nodes, "search-nodes", liquid.DefaultNodes, "transfers that the search may try")
	fs.Int64Var(&f.options.Moves, "moves", liquid.DefaultMoves, "moves without progress that the colouring may make for a number of steps")
	fs.Uint64Var(&f.options.Seed, "seed", 0, "of everything random")
	fs.BoolVar(&f.compare, "compare", false, "print the steps of dsatur, round-robin and random too")
	fs.StringVar(&f.out, "out", "", "write the schedule of a fabric to this file, as phases.csv; - is standard output")
	f.svg.register(cmd, "which steps use which links")
	return cmd
}

// run makes a schedule, verifies it, and prints it.
func (f *liquidScheduleFlags) run(cmd *cobra.Command) error {
	switch {
	case f.time <= 0:
		return fmt.Errorf("--time %v: want a time, such as 30s", f.time)
	case f.options.Nodes < 1 || f.options.Moves < 1:
		return errors.New("--search-nodes and --moves: want 1 or more")
	case !slices.Contains(liquid.Methods, f.options.Method):
		return fmt.Errorf("--method %q: want auto, search, colouring, dsatur, round-robin, random or first-fit", f.options.Method)
	}
	if err := command.CheckOutputs(cmd, command.Output{Flag: "out", Path: f.out, What: "the schedule"}, f.svg.output()); err != nil {
		return err
	}
	if f.out != "" && f.network != "" {
		return errors.New("--out is for a fabric: --json has the schedule of a network")
	}
	t, err := f.read(cmd)
	if err != nil {
		return err
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(cmd.Context(), f.time)
	defer cancel()
	done := command.Searching(cmd, "scheduling", true)
	result, err := liquid.Make(ctx, t.traffic, f.options)
	spent := time.Since(start)
	if result == nil {
		done()
		return err
	}
	report := liquid.NewReport(t.traffic, result)
	err = nil // ignore the expired time limit
	if f.compare && cmd.Context().Err() == nil {
		report.Compare, err = liquid.Others(cmd.Context(), t.traffic, f.options.Seed)
	}
	done()
	if err != nil && cmd.Context().Err() == nil {
		return err
	}
	if t.routes != nil {
		report.AddRoutes(t.routes)
		if err := f.write(cmd, t, result); err != nil {
			return err
		}
	} else if t.traffic.Uniform() {
		report.MBps = report.Throughput * t.network.Rate
	}
	chart := func() *chart { return liquidChart(t.traffic, report, result.Schedule, t.linkName) }
	err = f.svg.show(cmd, f.out != "-", chart, report, func(w io.Writer) { printLiquid(w, t, report, spent) })
	return cmp.Or(err, command.Interrupted(cmd))
}

// write checks the schedule on the tables, and writes it to the file of --out.
func (f *liquidScheduleFlags) write(cmd *cobra.Command, t *transfers, r *liquid.Result) error {
	table, err := t.routes.Table(r.Schedule)
	if err != nil {
		return err
	}
	if err := t.routes.Check(table); err != nil {
		return fmt.Errorf("the schedule fails its check on the tables, which is a fault of forsplan: %w", err)
	}
	if f.out == "" {
		return nil
	}
	var csv bytes.Buffer
	if err := phasetable.WriteCSV(&csv, table); err != nil {
		return err
	}
	return command.WriteOut(cmd, f.out, csv.Bytes())
}

// mostSteps is the maximum number of printed steps.
const mostSteps = 60

// printLiquid prints a schedule.
func printLiquid(w io.Writer, t *transfers, r *liquid.Report, spent time.Duration) {
	fmt.Fprintf(w, "exchange\t%d transfers of %s", r.Transfers, command.Plural(r.Nodes, "node", "nodes"))
	if r.ConflictEdges >= 0 {
		fmt.Fprintf(w, "; %d edges in the conflict graph", r.ConflictEdges)
	}
	fmt.Fprintln(w)
	if r.UnreachablePairs > 0 {
		fmt.Fprintf(w, "left out\t%s without a path; the first: %s\n", command.Plural(r.UnreachablePairs, "pair", "pairs"), r.FirstUnreachable)
	}
	fmt.Fprintf(w, "duration Λ\t%d on %s; liquid throughput %.4g links\n", r.Duration, command.Plural(r.Bottlenecks, "bottleneck", "bottlenecks"), r.LiquidThroughput)
	for i, b := range r.Speeds {
		name := "speeds"
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(w, "%s\t%d transfers at %g: at least %d steps that slow\n", name, b.Transfers, b.Rate, b.Steps)
	}
	fmt.Fprintf(w, "schedule\t%s by %s: %s\n", command.Plural(r.Steps, "step", "steps"), r.Method, liquidVerdict(r))
	if r.Orbits > 0 {
		fmt.Fprintf(w, "symmetry\tof %d orbits of transfers\n", r.Orbits)
	}
	fmt.Fprintf(w, "throughput\t%.4g links", r.Throughput)
	if r.MBps > 0 {
		fmt.Fprintf(w, ", %.1f MB/s", r.MBps)
	}
	fmt.Fprintln(w)
	if len(r.Speeds) > 0 {
		fmt.Fprintf(w, "time\t%.4g transfers at the highest speed; the bound is %.4g\n", r.Time, r.TimeBound)
	}
	for _, m := range []liquid.Method{liquid.MethodDsatur, liquid.MethodRoundRobin, liquid.MethodRandom} {
		if steps, ok := r.Compare[m]; ok {
			fmt.Fprintf(w, "%s\t%s\n", m, command.Plural(steps, "step", "steps"))
		}
	}
	fmt.Fprintf(w, "found in\t%s, and verified\n", command.Took(spent))
	if t.routes == nil {
		printSteps(w, r)
	}
}

// liquidVerdict describes the quality of the schedule.
func liquidVerdict(r *liquid.Report) string {
	switch {
	case r.Liquid:
		return "liquid"
	case r.NoLiquid && r.Optimal:
		return "there is no liquid one, and none is shorter"
	case r.NoLiquid:
		return fmt.Sprintf("there is no liquid one; this is the best found, %d over Λ", r.Gap)
	}
	return fmt.Sprintf("the best found, %d over Λ (%.2g %%)", r.Gap, 100*float64(r.Gap)/float64(max(1, r.Duration)))
}

// printSteps prints the sender and receiver of each transfer.
func printSteps(w io.Writer, r *liquid.Report) {
	if len(r.Schedule) > mostSteps {
		fmt.Fprintln(w, "--json has the steps")
		return
	}
	for i, step := range r.Schedule {
		words := make([]string, len(step))
		for j, p := range step {
			words[j] = fmt.Sprintf("%d→%d", p[0], p[1])
		}
		fmt.Fprintf(w, "%3d  %s\n", i, strings.Join(words, " "))
	}
}
