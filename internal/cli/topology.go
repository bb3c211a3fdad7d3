package cli

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"forsd/topology"
)

// treeSummary is what forsctl topology --json prints.
type treeSummary struct {
	Hash       string             `json:"topology_hash"`
	Lanes      int                `json:"lanes"`
	Leaves     []leafSummary      `json:"leaves"`
	Spines     []spineSummary     `json:"spines"`
	Servers    int                `json:"servers"`
	Bystanders int                `json:"bystanders"`
	Findings   []topology.Finding `json:"findings"`
}

type leafSummary struct {
	GUID    topology.GUID `json:"guid"`
	Name    string        `json:"name"`
	Present bool          `json:"present"`
	Servers int           `json:"servers"`
	LanesUp int           `json:"lanes_up"`
}

type spineSummary struct {
	GUID      topology.GUID `json:"guid"`
	Name      string        `json:"name"`
	Present   bool          `json:"present"`
	FirstLane int           `json:"first_lane"`
	Lanes     int           `json:"lanes"`
}

func topologyCommand() *cobra.Command {
	var fabric fabricFlags
	cmd := &cobra.Command{
		Use:   "topology [--topology FILE]",
		Short: "Show the fat tree that is seen, or why it is none",
		Long: `Topology recognises the two-level fat tree in a topology file and shows its
leaves, spines, lanes and servers, and how it deviates from its baseline.
Without --topology it asks a running forsd.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if fabric.topology == "" {
				return daemonTopology(cmd)
			}
			tree, err := fabric.load()
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, summarise(tree))
			}
			return printTree(cmd, summarise(tree))
		},
	}
	fabric.register(cmd)
	return cmd
}

func summarise(t *topology.FatTree) treeSummary {
	s := treeSummary{Hash: t.Fabric.Hash(), Lanes: t.Lanes, Servers: len(t.Servers), Bystanders: len(t.Hosts) - len(t.Servers), Findings: t.Findings}
	for l := range t.Leaves {
		leaf := leafSummary{GUID: t.Leaves[l].GUID, Name: t.Leaves[l].Name, Present: t.Leaves[l].Node != topology.None}
		for k := range t.Lanes {
			if t.LaneUp(l, k) {
				leaf.LanesUp++
			}
		}
		s.Leaves = append(s.Leaves, leaf)
	}
	for _, i := range t.Servers {
		s.Leaves[t.Hosts[i].Leaf].Servers++
	}
	for i := range t.Spines {
		sp := &t.Spines[i]
		s.Spines = append(s.Spines, spineSummary{sp.GUID, sp.Name, sp.Node != topology.None, sp.First, sp.Cables})
	}
	if s.Findings == nil {
		s.Findings = []topology.Finding{}
	}
	return s
}

func printTree(cmd *cobra.Command, s treeSummary) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "two-level fat tree: %d leaves, %d spines, %d lanes, %d servers, %d bystanders\n", len(s.Leaves), len(s.Spines), s.Lanes, s.Servers, s.Bystanders)
	fmt.Fprintln(w, "leaf\tGUID\tservers\tlanes up\t")
	for _, l := range s.Leaves {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d of %d\t%s\n", l.Name, l.GUID, l.Servers, l.LanesUp, s.Lanes, absent(l.Present))
	}
	fmt.Fprintln(w, "spine\tGUID\tlanes\t\t")
	for _, sp := range s.Spines {
		fmt.Fprintf(w, "%s\t%s\t%s\t\t%s\n", sp.Name, sp.GUID, laneRange(sp), absent(sp.Present))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, f := range s.Findings {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", f.Code, f.Text)
	}
	return nil
}

func laneRange(s spineSummary) string {
	if s.Lanes == 1 {
		return fmt.Sprint(s.FirstLane)
	}
	return fmt.Sprintf("%d–%d", s.FirstLane, s.FirstLane+s.Lanes-1)
}

func absent(present bool) string {
	if present {
		return ""
	}
	return "absent"
}
