package cli

import (
	"errors"
	"fmt"
	"log/syslog"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/hostlist"
	"github.com/forsd/forsd/internal/slurm"
	"github.com/forsd/forsd/topology"
)

// slurmFormats are the formats of forsctl topology for Slurm: topology.yaml of Slurm 25.05 and
// later, and topology.conf, for the plugin topology/tree; and both for topology/block, whose
// topology.conf Slurm reads since 23.11. SIZE is the planning base block size, the smallest
// number of nodes in a block.
var slurmFormats = map[string]struct{ head, leaf, tail string }{
	"slurm": {"- topology: fabric\n  cluster_default: true\n  tree:\n    switches:\n      - switch: fabric\n        children: LEAVES\n",
		"      - switch: %s\n        nodes: %s\n", ""},
	"slurm-conf": {"", "SwitchName=%s Nodes=%s\n", "SwitchName=fabric Switches=LEAVES\n"},
	"slurm-block": {"- topology: fabric\n  cluster_default: true\n  block:\n    block_sizes:\n      - SIZE\n    blocks:\n",
		"      - block: %s\n        nodes: %s\n", ""},
	"slurm-block-conf": {"", "BlockName=%s Nodes=%s\n", "BlockSizes=SIZE\n"},
}

// slurmRoot is the switch above all leaves. Trees in Slurm have one path upwards, and every
// spine joins all leaves, so only the hosts that share a leaf matter.
const slurmRoot = "fabric"

// slurmSwitch is a leaf in Slurm's terms.
type slurmSwitch struct {
	name  string
	nodes []string
}

// slurmFlags are the flags of forsctl topology for Slurm.
type slurmFlags struct {
	format string
	out    string
}

// check returns an error for flags that do not fit together.
func (s *slurmFlags) check(cmd *cobra.Command) error {
	switch {
	case s.format == "" && s.out != "-":
		return fmt.Errorf("--out without --format: say what to write, slurm, slurm-conf, slurm-block or slurm-block-conf")
	case s.format != "" && slurmFormats[s.format].leaf == "":
		return fmt.Errorf("--format %s: want slurm, slurm-conf, slurm-block or slurm-block-conf", s.format)
	case s.format != "" && command.WantsJSON(cmd):
		return fmt.Errorf("--json does not go with --format")
	}
	return nil
}

// write writes the baseline for Slurm. Hosts that are temporarily down are included, as are those
// that wait for their LIDs; without them, Slurm would schedule jobs as if those hosts had no
// location. Hosts whose role excludes them are not. A file is replaced atomically, and only if there
// is something to write.
func (s *slurmFlags) write(cmd *cobra.Command, b *topology.Baseline, seen *api.Topology, exclude *regexp.Regexp) error {
	aside := map[ib.GUID]bool{}
	for i := range seen.Hosts {
		aside[seen.Hosts[i].GUID] = !seen.Hosts[i].Server && seen.Hosts[i].LID != 0
	}
	leaves, notes, err := slurmSwitches(b, aside, exclude)
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "forsctl: %s\n", note)
	}
	return command.WriteOut(cmd, s.out, slurmFile(s.format, leaves))
}

// slurmSwitches lists the leaves that have nodes. A node's name is the first word of its
// description. A node with ports on several leaves belongs to the first, because Slurm's trees
// have one place for each node. The notes name the nodes that were left out.
func slurmSwitches(b *topology.Baseline, aside map[ib.GUID]bool, exclude *regexp.Regexp) (leaves []slurmSwitch, notes []string, err error) {
	taken, at := map[string]bool{slurmRoot: true}, map[string]int{}
	for l := range b.Leaves {
		leaf := &b.Leaves[l]
		s := slurmSwitch{name: switchName(leaf.Name, leaf.GUID, taken)}
		for _, slot := range leaf.Slots {
			if slot.GUID == 0 || aside[slot.GUID] || exclude != nil && exclude.MatchString(slot.Name) {
				continue
			}
			node, _, _ := strings.Cut(slot.Name, " ")
			first, known := at[node]
			switch {
			case !hostlist.Usable(node):
				notes = append(notes, fmt.Sprintf("%s (%q) on %s has no name that Slurm could know, and is left out", slot.GUID, slot.Name, leaf.Name))
			case !known:
				at[node] = l
				s.nodes = append(s.nodes, node)
			case first != l:
				notes = append(notes, fmt.Sprintf("%s has ports on %s and on %s: it is written for the first alone", node, b.Leaves[first].Name, leaf.Name))
			}
		}
		if len(s.nodes) > 0 {
			leaves = append(leaves, s)
		}
	}
	if len(leaves) == 0 {
		return nil, notes, errors.New("the fabric has no node that Slurm could use: nothing is written")
	}
	return leaves, notes, nil
}

// maxSwitchName is the longest name of a switch that Slurm takes.
const maxSwitchName = 63

// switchName derives a switch's name for Slurm from its description: it keeps letters, digits
// and . _ -. If the result is empty, too long or taken, the name is the GUID.
func switchName(description string, guid ib.GUID, taken map[string]bool) string {
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, description)
	if strings.Trim(name, "_") == "" || len(name) > maxSwitchName || taken[name] {
		name = "switch-" + guid.String()
	}
	taken[name] = true
	return name
}

// slurmFile returns the file for Slurm in a format.
func slurmFile(format string, leaves []slurmSwitch) []byte {
	var out strings.Builder
	names, size := []string{}, len(leaves[0].nodes)
	quoted := func(text string) string {
		if strings.HasSuffix(format, "conf") || plainText.MatchString(text) {
			return text
		}
		return strconv.Quote(text)
	}
	f := slurmFormats[format]
	for _, l := range leaves {
		names, size = append(names, l.name), min(size, len(l.nodes))
		fmt.Fprintf(&out, f.leaf, quoted(l.name), quoted(hostlist.Compress(l.nodes)))
	}
	fill := strings.NewReplacer("LEAVES", quoted(hostlist.Compress(names)), "SIZE", strconv.Itoa(size))
	return []byte("# Written by forsctl topology --format " + format + ".\n" + fill.Replace(f.head) + out.String() + fill.Replace(f.tail))
}

// plainText matches words that YAML reads as text without quotes. They have a digit, a dash or
// a dot after a letter, unlike any word with a special meaning, and nothing that YAML could
// interpret, such as a colon at the end.
var plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z_]*[0-9.\[-][A-Za-z0-9_.,\[\]-]*$`)

// slurmWithin is how long Slurm's scripts wait for forsd unless --timeout says otherwise.
const slurmWithin = 5 * time.Second

func slurmCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slurm",
		Short: "What Slurm's prolog and epilogs do for forsd",
		Long: `Slurm runs these commands by the scripts in configs/slurm. They take what Slurm
tells in environment variables, wait for forsd for 5 s at most (--timeout), and
always exit with 0, because Slurm requeues a job whose prolog fails. What goes
wrong is written to the system's log, by the name forsd-slurm.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, s := range []struct {
		name, short, long string
		run               func(*cobra.Command, *slurm.Script, bool)
	}{
		{"prolog", "Plan the Slurm job that starts (PrologSlurmctld)",
			`Prolog creates the job slurm-ID for a Slurm job on two nodes or more. Its lease
ends an hour after the time limit. Nodes that the fabric does not have are left out.
Where forsd does not answer, a process in the background asks it again for 15
minutes, as long as the job runs.`,
			func(cmd *cobra.Command, s *slurm.Script, later bool) {
				if later {
					s.Retry(cmd.Context(), false)
				} else {
					s.Prolog(cmd.Context())
				}
			}},
		{"epilog", "End the job of the Slurm job that has ended (EpilogSlurmctld)",
			`Epilog ends the job slurm-ID. Where forsd does not answer, a process in the
background asks it again for 15 minutes; after that the lease ends the job.`,
			func(cmd *cobra.Command, s *slurm.Script, later bool) {
				if later {
					s.Retry(cmd.Context(), true)
				} else {
					s.Epilog(cmd.Context())
				}
			}},
		{"task-prolog", "Tell the tasks which job is theirs (TaskProlog)",
			`Task-prolog prints the lines "export FORSD_JOB=…" and "export FORSD_TABLE=…" for
Slurm where forsd has a job for the tasks. Each part of a heterogeneous job has its own.
If FORS_SHIM names a library, such as libforsmpi.so, they load it (LD_PRELOAD).`,
			func(cmd *cobra.Command, s *slurm.Script, _ bool) {
				server, _ := cmd.Flags().GetString("server")
				fmt.Fprint(cmd.OutOrStdout(), s.TaskProlog(cmd.Context(), server))
			}},
	} {
		var later bool
		sub := &cobra.Command{
			Use: s.name, Short: s.short, Long: s.long, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if command.WantsJSON(cmd) {
					return errors.New("--json: Slurm reads the output: leave the flag out")
				}
				script, err := newScript(cmd)
				if err == nil {
					s.run(cmd, script, later)
				}
				return err
			},
		}
		sub.Flags().BoolVar(&later, "later", false, "try again what could not be done")
		_ = sub.Flags().MarkHidden("later") // the flag exists
		cmd.AddCommand(sub)
	}
	return cmd
}

// newScript returns a script that asks the forsd of --server.
func newScript(cmd *cobra.Command) (*slurm.Script, error) {
	client, err := dial(cmd)
	if err != nil {
		return nil, err
	}
	within := slurmWithin
	if t := timeout(cmd); t > 0 {
		within = t
	}
	log, _ := syslog.New(syslog.LOG_DAEMON|syslog.LOG_WARNING, "forsd-slurm") // some hosts have no syslog
	return &slurm.Script{Getenv: os.Getenv, Jobs: client, Queue: slurm.Squeue, Within: within,
		Later: func() error { return inBackground(cmd, within) },
		Report: func(text string) {
			fmt.Fprintln(cmd.ErrOrStderr(), "forsd-slurm: "+text)
			if log != nil {
				_ = log.Warning(text) // nowhere else to report this
			}
		}}, nil
}

// inBackground runs the same command with --later in its own session, so that Slurm does not
// wait for it.
func inBackground(cmd *cobra.Command, within time.Duration) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	server, _ := cmd.Flags().GetString("server")
	again := exec.Command(program, "slurm", cmd.Name(), "--later", "--server", server, "--timeout", within.String())
	again.Dir = "/"
	again.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := again.Start(); err != nil {
		return err
	}
	return again.Process.Release()
}
