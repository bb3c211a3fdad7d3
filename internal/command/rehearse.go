package command

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// Rehearsal are the arguments of the command.
type Rehearsal struct {
	Dump, Conf, Out string
	Events          int
	Seed            uint64
}

// RehearsalProgram does the work.
const RehearsalProgram = "forsd-rehearsal"

// Rehearse is the command, which run carries out.
func Rehearse(run func(*cobra.Command, *Rehearsal) error) *cobra.Command {
	o := &Rehearsal{}
	cmd := &cobra.Command{
		Use:   "rehearse DUMP [--opensm-conf FILE] [--events N] [--seed S]",
		Short: "Try forsd on this fabric, simulated, before it is installed",
		Long: `Rehearse simulates the fabric of a dump, under two OpenSM with a forsd and its plugin each,
and plays random events: cables, hosts and switches fail and return, parts are drained, jobs
come and go, and forsd and OpenSM are killed, stopped, or take over from each other. After
each event, tables and plans are read from outside and judged by a program that shares
nothing with forsd. It ends with the first violation, or when interrupted, with the report so
far. The same seed gives the same events.

OpenSM gets the settings of --opensm-conf, as "forsctl setup" would change them for forsd;
those that stand in forsd's way are in the report. Error thresholds, fdr10 and max_wire_smps are
those of the simulation.

Nothing is touched outside a temporary directory, and no InfiniBand is needed. It runs the
installed forsd and opensm, and ibsim; the package forsd-rehearsal brings all of them. forsd's
waits are cut to seconds, and the simulation shares the processors with what it tries, so that
times are those of this machine. On two cores an event takes seconds with 500 servers, and
about half a minute with 2,300 on three levels.

Exit code 0: no violation; 1: a violation, or interrupted before the first event; 2: the
input cannot be used.`,
		Example: "  ibnetdiscover >fabric.txt\n  forsctl rehearse fabric.txt --opensm-conf /etc/opensm/opensm.conf --out rehearsal.html",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dump = args[0]
			if err := CheckOutputs(cmd, Output{Flag: "out", Path: o.Out, What: "the page"}); err != nil {
				return err
			}
			return run(cmd, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Conf, "opensm-conf", "", "the site's opensm.conf")
	f.IntVar(&o.Events, "events", 100, "how many events there are")
	f.Uint64Var(&o.Seed, "seed", 1, "of the random events")
	f.StringVar(&o.Out, "out", "", "a page to write")
	_ = cmd.MarkFlagFilename("opensm-conf")
	return cmd
}

// FindFile returns the path of a file of the packages, "" if it is not installed: in the directory
// of this program, in those of the same installation, or in PATH.
func FindFile(name string) string {
	var dirs []string
	if self, err := os.Executable(); err == nil {
		for _, dir := range []string{".", "../libexec/forsd", "../../bin", "../../lib", "../../lib64"} {
			dirs = append(dirs, filepath.Join(filepath.Dir(self), dir))
		}
	}
	for _, dir := range append(dirs, filepath.SplitList(os.Getenv("PATH"))...) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
