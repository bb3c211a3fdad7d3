package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/maruel/natural"
	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/topology"
)

// cablesFlags select the cables to show.
type cablesFlags struct {
	all   bool
	watch bool
	state []string
	nodes []string // NODE or NODE/PORT; empty selects all
}

func cablesCommand() *cobra.Command {
	var f cablesFlags
	cmd := &cobra.Command{
		Use:   "cables [NODE | NODE/PORT]...",
		Short: "Show how well the cables between leaves and spines are",
		Long: `Cables lists the cables that are not well, are down, or are kept out of the plan:
what both ends have counted, and what forsd has decided. With names of switches or
ports it shows these cables with all counters and the last decisions; with --all
every cable. "operating.md" among forsd's documents tells how forsd judges cables.`,
		Example:           "  forsctl cables\n  forsctl cables Leaf007/31\n  forsctl cables --state suspect,isolated --json\n  forsctl cables --watch",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: failureNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.nodes = args
			return with(cmd, func(ctx context.Context, c *api.Client) error { return f.show(ctx, cmd, c) })
		},
	}
	cmd.Flags().BoolVar(&f.all, "all", false, "show every cable")
	cmd.Flags().BoolVar(&f.watch, "watch", false, "show them again after every round over the counters, until interrupted")
	cmd.Flags().StringSliceVar(&f.state, "state", nil, "show cables in these states: good, suspect, isolated, probation")
	cmd.AddCommand(&cobra.Command{
		Use:   "release NODE/PORT",
		Short: "Put an isolated cable back, on probation",
		Long: `Release says that an isolated cable was mended. It comes back at once, on probation,
and counts as one that was never isolated. The cable is named by either end.`,
		Example: "  forsctl cables release Leaf007/31",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: atMost(1, cableNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return command.Answer(cmd, with, func(ctx context.Context, c *api.Client) (*api.Change, error) { return c.ReleaseCable(ctx, args[0]) }, printChange)
		},
	})
	return cmd
}

// watchCables is the interval between checks for a new round.
const watchCables = time.Second

// show prints the cables, repeatedly with --watch.
func (f *cablesFlags) show(ctx context.Context, cmd *cobra.Command, c *api.Client) error {
	for _, s := range f.state {
		if !slices.Contains([]string{"good", "suspect", "isolated", "probation"}, s) {
			return fmt.Errorf("--state %s is none of good, suspect, isolated, probation", s)
		}
	}
	for last := ""; ; {
		all, err := c.Cables(ctx)
		if err != nil {
			return err
		}
		chosen, total, states := f.chosen(all.Cables), len(all.Cables), map[string]int{"good": 0, "suspect": 0, "isolated": 0, "probation": 0}
		for i := range all.Cables {
			states[all.Cables[i].State]++
		}
		if len(f.nodes) > 0 && len(chosen) == 0 {
			return fmt.Errorf("no cable between a leaf and a spine is at %s in these states", strings.Join(f.nodes, ", "))
		}
		var out strings.Builder
		if command.WantsJSON(cmd) {
			all.Cables = chosen
		} else if err := f.print(&out, all, chosen, states); err != nil {
			return err
		}
		if text := out.String() + all.ReadAt.String(); !f.watch || text != last {
			last = text
			if command.WantsJSON(cmd) {
				err = f.printJSON(cmd, all, total, states)
			} else {
				_, err = io.WriteString(cmd.OutOrStdout(), out.String())
			}
		}
		if err != nil || !f.watch {
			return err
		}
		select {
		case <-time.After(watchCables):
		case <-ctx.Done():
			return nil
		}
	}
}

// printJSON prints the chosen cables, and how many of all are in each state. With --watch it
// prints them in one line.
func (f *cablesFlags) printJSON(cmd *cobra.Command, chosen *api.Cables, total int, states map[string]int) error {
	answer := struct {
		*api.Cables
		Total  int            `json:"total"` // cables of the baseline
		States map[string]int `json:"states"`
	}{chosen, total, states}
	if f.watch {
		return command.PrintLine(cmd, answer)
	}
	return command.PrintJSON(cmd, answer)
}

// chosen returns the cables that the flags select, sorted by the names and ports of their
// leaves.
func (f *cablesFlags) chosen(all []api.Cable) []api.Cable {
	out := []api.Cable{}
	for _, c := range all {
		named := slices.ContainsFunc(f.nodes, func(n string) bool { return isEnd(n, &c.Leaf) || isEnd(n, &c.Spine) })
		odd := c.State != "good" || c.Link != "full" || c.Held
		switch {
		case len(f.nodes) > 0 && !named, len(f.state) > 0 && !slices.Contains(f.state, c.State):
		case f.all || len(f.nodes) > 0 || len(f.state) > 0 || odd:
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b api.Cable) int {
		return cmp.Or(natural.Compare(a.Leaf.Name, b.Leaf.Name), cmp.Compare(a.Leaf.Port, b.Leaf.Port))
	})
	return out
}

// isEnd reports whether name, as NODE or NODE/PORT, names the end.
func isEnd(name string, e *api.CableEnd) bool {
	for _, node := range []string{e.Name, e.GUID.String()} {
		if name == node || topology.NodePort(name) == fmt.Sprintf("%s/%d", node, e.Port) {
			return true
		}
	}
	return false
}

// print prints the chosen cables.
func (f *cablesFlags) print(out io.Writer, all *api.Cables, chosen []api.Cable, count map[string]int) error {
	read := "no counters have been read yet"
	switch {
	case all.Mode == "off":
		read = "counters are not read (cables.mode is off)"
	case all.Unread != "":
		read = "counters are not read: " + all.Unread
	case !all.ReadAt.IsZero():
		read = "counters were read last at " + command.Clock(all.ReadAt)
	}
	fmt.Fprintf(out, "%s: %d good, %d suspect, %d isolated, %d on probation; mode %s; %s\n",
		command.Plural(len(all.Cables), "cable", "cables"), count["good"], count["suspect"], count["isolated"], count["probation"], all.Mode, read)
	for _, text := range all.Failed {
		fmt.Fprintf(out, "not read: %s\n", text)
	}
	if len(chosen) == 0 {
		return nil
	}
	w := command.NewTable(out)
	fmt.Fprintln(w, "\nleaf\tport\tspine\tport\tlane\tlink\tstate\tsince\tsymbols\treceive\tdowned\twhy")
	for i := range chosen {
		c := &chosen[i]
		a, b := &c.Leaf.Counted, &c.Spine.Counted
		link, why := c.Link, strings.Join(c.Why, "; ")
		if c.Held && c.State != "isolated" {
			link += ", held"
		}
		if c.Refused != "" {
			why += "; it stays: " + c.Refused
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%s\t%s\t%s\t%d/%d\t%d/%d\t%d/%d\t%s\n", c.Leaf.Name, c.Leaf.Port, c.Spine.Name, c.Spine.Port, c.Lane, link, c.State, clock(c.Since),
			a.Symbols, b.Symbols, a.Received, b.Received, a.Downed, b.Downed, why)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(f.nodes) > 0 {
		for i := range chosen {
			detail(out, &chosen[i])
		}
	}
	return nil
}

// clock formats a time in local time, or "-" for the zero time.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return command.Clock(t)
}

// detail prints all counters of a cable and the last decisions about it.
func detail(out io.Writer, c *api.Cable) {
	fmt.Fprintf(out, "\n%s port %d - %s port %d\n", c.Leaf.Name, c.Leaf.Port, c.Spine.Name, c.Spine.Port)
	for _, e := range []*api.CableEnd{&c.Leaf, &c.Spine} {
		n := &e.Counted
		fmt.Fprintf(out, "  %s port %d, within %s: %d symbol errors, %d link recoveries, %d times down, %d receive errors, %d discards, %d local integrity errors, %d buffer overruns; %d packets sent, waited for %d ticks\n",
			e.Name, e.Port, time.Duration(n.OverSeconds*float64(time.Second)).Round(time.Second), n.Symbols, n.Recoveries, n.Downed, n.Received, n.Discards, n.Integrity, n.Overruns, n.Sent, n.Wait)
	}
	if t := c.Timed; t != nil {
		fmt.Fprintf(out, "  measured at %s: %.0f Gb/s, its transfers took %.1f %% ± %.1f %% longer than others (%s)\n",
			command.Clock(t.At), t.Gbps, 100*t.Slowdown, 100*t.Error, command.Plural(t.Transfers, "transfer", "transfers"))
	}
	for _, h := range c.History {
		fmt.Fprintf(out, "  %s  %s\n", command.Clock(h.At), h.Text)
	}
}
