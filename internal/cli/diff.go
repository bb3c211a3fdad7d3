package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

func diffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show what differs between two topologies, table files, plans or epochs",
		Long: `Diff compares two topology files (output of ibnetdiscover, opensm-subnet.lst) in
words; two files of forwarding tables (lfts.dump, opensm-lfts.dump, output of
dump_fts) by switches, entries and the blocks of 64 entries that a subnet
manager would send; two plans (phases.bin, or the directories of forsctl plan) by
the pairs of servers that have another destination LID, which --json lists; or two
epochs of a running forsd by their numbers. The kind of a file is recognised by its
content.

Exit code 0: no difference; 1: there is one; 2: the input cannot be used.`,
		Example: "  forsctl diff yesterday.txt today.txt\n  forsctl diff plan/lfts.dump /var/log/opensm-lfts.dump\n  forsctl diff healthy/ hurt/\n  forsctl diff 41 42",
		Args:    cobra.ExactArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			epochs, _ := epochNames(cmd, args, word)
			return epochs, cobra.ShellCompDirectiveDefault // files if forsd does not answer
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if a, b, ok := epochNumbers(args); ok {
				return diffEpochs(cmd, a, b)
			}
			var ends [2]compared
			for i, path := range args {
				var err error
				if ends[i], err = readCompared(path); err != nil {
					return err
				}
			}
			switch a, b := &ends[0], &ends[1]; {
			case a.fabric != nil && b.fabric != nil:
				return diffFabrics(cmd, a, b)
			case a.tables != nil && b.tables != nil:
				return diffTables(cmd, lft.Changes(a.tables, b.tables))
			case a.plan != nil && b.plan != nil:
				return diffPlans(cmd, a.plan, b.plan)
			default:
				return fmt.Errorf("%s is %s and %s is %s: both must be of one kind", args[0], a.kind, args[1], b.kind)
			}
		},
	}
	return cmd
}

// epochNumbers reads the arguments as epochs, if neither is a file.
func epochNumbers(args []string) (a, b uint64, ok bool) {
	var n [2]uint64
	for i, arg := range args {
		var err error
		if n[i], err = strconv.ParseUint(arg, 10, 64); err != nil {
			return 0, 0, false
		}
		if _, err := os.Stat(arg); err == nil {
			return 0, 0, false
		}
	}
	return n[0], n[1], true
}

const (
	planKind   = "a phase table"
	tablesKind = "a file of forwarding tables"
)

// compared is a file of a kind that diff can compare.
type compared struct {
	kind   string
	source topology.Source
	fabric *topology.Fabric
	tables *lft.Tables
	plan   *phasetable.View
}

// readCompared detects the kind of a file from its content. A phase table has known first
// bytes, a file that mentions unicast LIDs holds tables, and any other file must be a topology.
// For a directory it reads the phase table that forsctl plan has written there.
func readCompared(path string) (c compared, err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, planner.BinaryFile)
	}
	data, err := command.ReadPath(path, command.MaxFile)
	if err != nil {
		return c, err
	}
	if phasetable.Is(data) {
		c.kind = planKind
		c.plan, err = command.Parse(path, phasetable.Decode)(data, nil)
		return c, err
	}
	if looksLikeTables(data) {
		c.kind = tablesKind
		c.tables, err = command.Parse(path, lft.ReadBytes)(data, nil)
		return c, err
	}
	if c.fabric, c.source, err = topology.Read(data); err != nil {
		if c.source == topology.SourceUnknown && !errors.Is(err, topology.ErrIncomplete) {
			err = fmt.Errorf("%w, or forwarding tables", err)
		}
		return c, fmt.Errorf("%s: %w", path, err)
	}
	c.kind = "a topology (" + c.source.String() + ")"
	return c, nil
}

// looksLikeTables reports whether one of the first lines is the header of a table, or counts
// tables in forsd's format.
func looksLikeTables(data []byte) bool {
	for range 32 {
		line, rest, more := bytes.Cut(data, []byte{'\n'})
		if bytes.HasPrefix(line, []byte("Unicast lids ")) || bytes.HasPrefix(line, []byte("# forsd tables: ")) {
			return true
		}
		if !more {
			return false
		}
		data = rest
	}
	return false
}

func diffFabrics(cmd *cobra.Command, a, b *compared) error {
	if a.source != b.source {
		// Only ibnetdiscover reports the LMC, so a missing LMC is not a difference.
		for _, f := range []*topology.Fabric{a.fabric, b.fabric} {
			if err := f.SetLMC(0); err != nil {
				return err
			}
		}
	}
	changes := topology.Diff(a.fabric, b.fabric)
	return differ(len(changes) == 0, command.Show(cmd, struct {
		Equal   bool              `json:"equal"`
		Changes []topology.Change `json:"changes"`
	}{len(changes) == 0, append([]topology.Change{}, changes...)}, func(w io.Writer) {
		if len(changes) == 0 {
			fmt.Fprintln(w, "no difference")
		}
		for _, c := range changes {
			fmt.Fprintln(w, c.Text)
		}
	}))
}

// differ ends the command after it has printed the differences.
func differ(equal bool, err error) error {
	if err == nil && !equal {
		return command.Violated{Err: errors.New("they differ")}
	}
	return err
}

func diffTables(cmd *cobra.Command, d lft.Delta) error {
	equal := d == lft.Delta{}
	return differ(equal, command.Show(cmd, struct {
		Equal bool `json:"equal"`
		lft.Delta
	}{equal, d}, func(w io.Writer) {
		if equal {
			fmt.Fprintln(w, "no difference")
			return
		}
		fmt.Fprintf(w, "%s on %s differ: %s of %d\n", command.Plural(d.Entries, "entry", "entries"),
			command.Plural(d.Switches, "switch", "switches"), command.Plural(d.Blocks, "block", "blocks"), lft.Block)
	}))
}

// planDiff is the output of forsctl diff --json for two phase tables.
type planDiff struct {
	Equal        bool                    `json:"equal"` // same number of phases, and every pair keeps its destination LID
	Phases       [2]int                  `json:"phases"`
	Servers      int                     `json:"servers"` // of the second plan
	PairsChanged int                     `json:"pairs_changed"`
	Pairs        []phasetable.PairChange `json:"pairs"` // pairs whose destination LID differs
}

func diffPlans(cmd *cobra.Command, a, b *phasetable.View) error {
	changes := phasetable.Changes(a, b)
	d := planDiff{len(changes) == 0 && a.Phases() == b.Phases() && a.Servers() == b.Servers(), [2]int{a.Phases(), b.Phases()}, b.Servers(), len(changes), append([]phasetable.PairChange{}, changes...)}
	return differ(d.Equal, command.Show(cmd, d, func(w io.Writer) {
		fmt.Fprintf(w, "phases\t%d, then %d\npairs\t%s\n", a.Phases(), b.Phases(), changedPairs(len(changes), b.Servers()))
	}))
}

// changedPairs describes how many pairs of servers have another destination LID.
func changedPairs(changed, servers int) string {
	pairs := servers * (servers - 1)
	return fmt.Sprintf("%d of %d pairs of servers have another destination LID (%.2f %%)", changed, pairs, 100*float64(changed)/float64(max(1, pairs)))
}

// epochDiff is the output of forsctl diff --json for two epochs.
type epochDiff struct {
	Equal      bool      `json:"equal"` // both have the same figures for the plan, and the same fabric
	SameFabric bool      `json:"same_fabric"`
	A          api.Epoch `json:"a"`
	B          api.Epoch `json:"b"`
	What       []string  `json:"what"` // the changes that led from a to b, if known
	// PairsChanged counts the pairs of servers that have another destination LID in b than in
	// a. It is nil if forsd no longer has the plans in memory.
	PairsChanged *int `json:"pairs_changed,omitempty"`
}

func diffEpochs(cmd *cobra.Command, a, b uint64) error {
	return with(cmd, func(ctx context.Context, c *api.Client) error {
		list, err := c.Epochs(ctx)
		if err != nil {
			return err
		}
		d := epochDiff{What: []string{}}
		for _, e := range []struct {
			n  uint64
			to *api.Epoch
		}{{a, &d.A}, {b, &d.B}} {
			if *e.to, err = findEpoch(list, e.n); err != nil {
				return err
			}
		}
		d.SameFabric = d.A.TopologyHash == d.B.TopologyHash
		d.Equal = d.SameFabric && d.A.Engine == d.B.Engine && d.A.Phases == d.B.Phases
		for i := range list {
			if x := &list[i]; x.Epoch > min(a, b) && x.Epoch <= max(a, b) {
				d.What = append(d.What, x.What...)
			}
		}
		d.countPairs(ctx, c)
		return differ(d.Equal, command.Show(cmd, d, func(w io.Writer) { printEpochDiff(w, &d) }))
	})
}

// countPairs asks for the pairs that differ. If forsd no longer has the plans in memory, each
// epoch still knows how much it changed from the epoch before it.
func (d *epochDiff) countPairs(ctx context.Context, c *api.Client) {
	if changes, err := c.Changes(ctx, d.A.Epoch, d.B.Epoch); err == nil {
		n := len(changes.Pairs)
		d.PairsChanged = &n
	} else if d.B.Epoch == d.A.Epoch+1 {
		d.PairsChanged = &d.B.PairsChanged
	}
}

// findEpoch finds an epoch in the list of kept epochs.
func findEpoch(list []api.Epoch, n uint64) (api.Epoch, error) {
	for _, x := range list {
		if x.Epoch == n {
			return x, nil
		}
	}
	if len(list) == 0 {
		return api.Epoch{}, fmt.Errorf("epoch %d is not kept: there is none yet", n)
	}
	return api.Epoch{}, fmt.Errorf("epoch %d is not kept: those from %d to %d are", n, list[0].Epoch, list[len(list)-1].Epoch)
}

func printEpochDiff(w io.Writer, d *epochDiff) {
	fmt.Fprintf(w, "epoch\t%d\t%d\n", d.A.Epoch, d.B.Epoch)
	fmt.Fprintf(w, "published\t%s\t%s\n", command.Clock(d.A.PublishedAt), command.Clock(d.B.PublishedAt))
	fmt.Fprintf(w, "phases\t%d\t%d\n", d.A.Phases, d.B.Phases)
	fmt.Fprintf(w, "bound\t%d\t%d\n", d.A.LowerBound, d.B.LowerBound)
	fmt.Fprintf(w, "engine\t%s\t%s\n", d.A.Engine, d.B.Engine)
	fmt.Fprintf(w, "fabric\t%.8s\t%.8s\n", d.A.TopologyHash, d.B.TopologyHash)
	if n := d.PairsChanged; n != nil && *n > 0 {
		fmt.Fprintf(w, "%s of servers have another destination LID\n", command.Plural(*n, "pair", "pairs"))
	}
	for _, what := range d.What {
		fmt.Fprintln(w, what)
	}
}
