package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/maruel/natural"
	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/topology"
)

func topologyCommand() *cobra.Command {
	var fabric command.Fabric
	var slurm slurmFlags
	cmd := &cobra.Command{
		Use:   "topology [FILE] [--format slurm|slurm-conf]",
		Short: "Show the fat tree that is seen, or why the fabric is not one",
		Long: `Topology recognises the two-level fat tree in a topology file and shows its
leaves, spines, lanes and servers, and how it deviates from its baseline. Of a fat
tree of three levels it shows the pods, planes, lanes and servers.
Without --topology it asks a running forsd.

With --format slurm it writes Slurm's topology.yaml, of Slurm 25.05 and later, with
--format slurm-conf the older topology.conf: which nodes share a leaf, for the
plugin topology/tree. It is written of the baseline, so that nodes that are down
for now stay in it. A node's name is the first word of its description. Hosts that
take no part in the exchange are left out. A file is replaced in one step, and
never by an empty one.`,
		Example: `  forsctl topology ibnetdiscover.txt
  forsctl topology --json | jq .findings
  forsctl topology --format slurm --out /etc/slurm/topology.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := slurm.check(cmd); err != nil {
				return err
			}
			exclude, err := fabric.Excluded()
			if err != nil {
				return err
			}
			show := func(t *api.Topology, leaf, mid float64) error {
				return command.Show(cmd, struct {
					*api.Topology
					Leaf float64 `json:"leaf_oversubscription,omitempty"` // hosts for each cable of a leaf
					Mid  float64 `json:"mid_oversubscription,omitempty"`  // cables to leaves for each to tops of a mid
				}{t, leaf, mid}, func(w io.Writer) {
					printTopology(w, t)
					if leaf > 0 {
						fmt.Fprintf(w, "oversubscription: %.3g hosts for each cable of a leaf, %.3g cables to leaves for each to tops of a mid\n", leaf, mid)
					}
				})
			}
			if fabric.Topology == "" {
				return with(cmd, func(ctx context.Context, c *api.Client) error {
					t, err := c.Topology(ctx)
					if err != nil {
						return err
					}
					if slurm.format == "" {
						return show(t, 0, 0)
					}
					base := &topology.Baseline{}
					if err := c.Call(ctx, http.MethodGet, "/v1/baseline", nil, base); err != nil {
						return err
					}
					return slurm.write(cmd, base, t, exclude)
				})
			}
			tree, err := fabric.Tree()
			if err != nil {
				return err
			}
			leaf, mid, seen := 0.0, 0.0, describe.Topology(tree, time.Time{})
			switch {
			case tree.Pods != nil && slurm.format != "":
				return fmt.Errorf("--format is for fat trees of two levels")
			case tree.Pods != nil:
				leaf, mid = tree.Pods.Subscription()
			case slurm.format != "":
				return slurm.write(cmd, tree.Baseline, seen, exclude)
			}
			return show(seen, leaf, mid)
		},
	}
	registerFabric(&fabric, cmd)
	fabric.TakesFile(cmd)
	cmd.Flags().StringVar(&slurm.format, "format", "", "write Slurm's topology.yaml (slurm, slurm-block) or topology.conf (slurm-conf, slurm-block-conf)")
	cmd.Flags().StringVar(&slurm.out, "out", "-", "with --format, the file to write, - for standard output")
	return cmd
}

func printTopology(w io.Writer, t *api.Topology) {
	ways := t.Lanes // of a leaf
	if t.Pods > 0 {
		ways = t.Planes
		fmt.Fprintf(w, "three-level fat tree: %d pods, %d planes, %d leaves, %d mids, %d tops, %d lanes, %d servers, %d bystanders\n", t.Pods, t.Planes, len(t.Leaves), len(t.Mids), len(t.Spines), t.Lanes, t.Servers, t.Bystanders)
	} else {
		fmt.Fprintf(w, "two-level fat tree: %d leaves, %d spines, %d lanes, %d servers, %d bystanders\n", len(t.Leaves), len(t.Spines), t.Lanes, t.Servers, t.Bystanders)
	}
	var roles []string
	for _, role := range slices.Sorted(maps.Keys(t.Roles)) {
		roles = append(roles, fmt.Sprintf("%d %s", t.Roles[role], role))
	}
	if roles != nil {
		fmt.Fprintf(w, "host ports by role: %s\n", strings.Join(roles, ", "))
	}
	fmt.Fprintln(w, "leaf\tGUID\tservers\tlanes up")
	for _, l := range byName(t.Leaves, func(l *api.Leaf) string { return l.Name }) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d of %d%s\n", l.Name, l.GUID, l.Servers, l.LanesUp, ways, absent(l.Present))
	}
	if t.Pods > 0 {
		fmt.Fprintln(w, "mid\tGUID\tpod\tlanes up")
	}
	for _, m := range byName(t.Mids, func(m *api.Mid) string { return m.Name }) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d of %d%s\n", m.Name, m.GUID, m.Pod, m.LanesUp, len(m.Cables), absent(m.Present))
	}
	fmt.Fprintln(w, "spine\tGUID\tlanes")
	for _, s := range byName(t.Spines, func(s *api.Spine) string { return s.Name }) {
		lanes := fmt.Sprint(s.FirstLane)
		if s.Lanes != 1 {
			lanes += fmt.Sprintf("–%d", s.FirstLane+s.Lanes-1)
		}
		fmt.Fprintf(w, "%s\t%s\t%s%s\n", s.Name, s.GUID, lanes, absent(s.Present))
	}
	for _, f := range t.Findings {
		fmt.Fprintf(w, "%s: %s\n", f.Code, f.Text)
	}
}

// byName sorts a list by name in natural order: leaf2 before leaf10.
func byName[T any](all []T, name func(*T) string) []T {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b T) int { return natural.Compare(name(&a), name(&b)) })
	return sorted
}

// absent marks parts of the baseline that the fabric does not have.
func absent(present bool) string {
	if present {
		return ""
	}
	return "  absent"
}
