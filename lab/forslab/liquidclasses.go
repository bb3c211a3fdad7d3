package forslab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lab/papers"
	"github.com/forsd/forsd/liquid"
)

// liquidClass is a line of forslab liquid-classes.
type liquidClass struct {
	Nodes       int     `json:"nodes"`
	Duration    int     `json:"duration"`
	Throughput  float64 `json:"liquid_throughput"` // in units of a link's
	Allocation  []int   `json:"allocation"`
	Allocations int     `json:"allocations"`
	Steps       int     `json:"steps"`
	Liquid      bool    `json:"liquid"`
	Method      string  `json:"method"`
	Dsatur      int     `json:"dsatur"`
	RoundRobin  int     `json:"round_robin"`
	Random      int     `json:"random"`
	seconds     float64
}

// liquidClasses is the output of forslab liquid-classes.
type liquidClasses struct {
	Version     int           `json:"version"`
	Allocations int           `json:"allocations"`
	Classes     int           `json:"classes"` // the empty one included
	Liquid      int           `json:"liquid"`
	Dsatur      []int         `json:"dsatur_loss"` // classes with none, below 10 %, and 10 % and more
	List        []liquidClass `json:"list"`
}

func liquidClassesCommand() *cobra.Command {
	var network string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "liquid-classes --network FILE",
		Short: "Schedule one allocation for each number of nodes and duration that there is",
		Long: `Liquid-classes goes through all allocations of nodes on the switches of a network, none, some
or all of each, and takes the first of those with the same number of nodes and the same
Λ: the sub-topologies of the paper. It schedules each of them, and compares with Dsatur,
round-robin and random.`,
		Example: `  forslab liquid-classes --network swiss-t1.json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case network == "":
				return errors.New("--network is missing: name a network in JSON")
			case limit <= 0:
				return fmt.Errorf("--time %v: want a time, such as 10s", limit)
			}
			data, err := command.ReadPath(network, command.MaxText)
			if err != nil {
				return err
			}
			n, err := liquid.ParseNetwork(data, network)
			if err != nil {
				return err
			}
			classes, err := papers.Classes(n)
			if err != nil {
				return err
			}
			out := &liquidClasses{Version: 1, Classes: len(classes), Dsatur: make([]int, 3), List: []liquidClass{}}
			bar := command.Progress(cmd, len(classes))
			for i, c := range classes {
				bar.Describe(command.Plural(c.Nodes, "node", "nodes"))
				_ = bar.Set(i)
				if out.Allocations += c.Allocations; c.Nodes == 0 {
					continue
				}
				if err := out.add(cmd.Context(), n, c, limit); err != nil {
					_ = bar.Finish()
					return err
				}
			}
			_ = bar.Finish()
			return command.Show(cmd, out, func(w io.Writer) { out.print(w, n) })
		},
	}
	cmd.Flags().StringVar(&network, "network", "", "a network with static routes, in JSON")
	cmd.Flags().DurationVar(&limit, "time", 10*time.Second, "how long to look for a schedule of each")
	return cmd
}

// add schedules the representative of a class.
func (o *liquidClasses) add(ctx context.Context, n *liquid.Network, c papers.Class, limit time.Duration) error {
	traffic, err := n.AllocatedAllToAll(c.Allocation)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	r, err := liquid.Make(within, traffic, liquid.Options{})
	if err != nil {
		return err
	}
	spent := time.Since(start)
	others, err := liquid.Others(ctx, traffic, 0)
	if err != nil {
		return err
	}
	line := liquidClass{Nodes: c.Nodes, Duration: c.Duration, Throughput: traffic.LiquidThroughput(), Allocation: c.Allocation, Allocations: c.Allocations,
		Steps: len(r.Schedule), Liquid: r.Liquid, Method: string(r.Method), Dsatur: others[liquid.MethodDsatur],
		RoundRobin: others[liquid.MethodRoundRobin], Random: others[liquid.MethodRandom], seconds: spent.Seconds()}
	if r.Liquid {
		o.Liquid++
	}
	switch {
	case line.Dsatur == c.Duration:
		o.Dsatur[0]++
	case 1-float64(c.Duration)/float64(line.Dsatur) < 0.1:
		o.Dsatur[1]++
	default:
		o.Dsatur[2]++
	}
	o.List = append(o.List, line)
	return nil
}

// print prints the numbers of all classes together for people, and those without a
// liquid schedule.
func (o *liquidClasses) print(w io.Writer, n *liquid.Network) {
	all, quick, slowest, tenth := len(o.List), 0, 0.0, 0.1
	sum := 0.0
	by := map[string]int{}
	for _, c := range o.List {
		by[c.Method]++
		sum += c.seconds
		slowest = max(slowest, c.seconds)
		if c.seconds < tenth {
			quick++
		}
	}
	percent := func(k int) float64 { return 100 * float64(k) / float64(max(1, all)) }
	fmt.Fprintf(w, "network\t%d nodes on %d switches, %d allocations\n", n.Nodes(), n.Switches, o.Allocations)
	fmt.Fprintf(w, "classes\t%d pairs of nodes and Λ, the empty allocation included\n", o.Classes)
	fmt.Fprintf(w, "liquid\t%d of %d: %d by round-robin, %d by the search, %d by colouring\n", o.Liquid, all,
		by[string(liquid.MethodRoundRobin)], by[string(liquid.MethodSearch)], by[string(liquid.MethodColouring)])
	fmt.Fprintf(w, "time\t%s together, the longest %s; %.1f %% below 0.1 s\n", command.Seconds(sum), command.Seconds(slowest), percent(quick))
	fmt.Fprintf(w, "Dsatur\tloses nothing on %.1f %%, below 10 %% on %.1f %%, 10 %% or more on %.1f %%\n", percent(o.Dsatur[0]), percent(o.Dsatur[1]), percent(o.Dsatur[2]))
	for _, c := range o.List {
		if !c.Liquid {
			fmt.Fprintf(w, "not liquid\t%v: %d steps, Λ = %d\n", c.Allocation, c.Steps, c.Duration)
		}
	}
}
