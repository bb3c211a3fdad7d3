package cli

import (
	"errors"
	"fmt"
	"log/syslog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/slurm"
)

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
