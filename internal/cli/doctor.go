package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/rdma"
	"github.com/forsd/forsd/internal/rights"
)

// grade is the outcome of a check.
type grade string

const (
	good grade = "ok"
	warn grade = "warn"
	fail grade = "fail"
)

// finding is a line of forsctl doctor.
type finding struct {
	Check string `json:"check"` // the name of the check; stable
	Grade grade  `json:"grade"`
	Text  string `json:"text"` // the result, and a remedy
}

// diagnosis is the output of forsctl doctor --json.
type diagnosis struct {
	OK      bool          `json:"ok"` // no check failed
	Checks  []finding     `json:"checks"`
	Devices []rdma.Device `json:"devices"` // local RDMA devices
}

// doctor carries the checks of one run.
type doctor struct {
	diagnosis
	ctx    context.Context
	path   string // of forsd.yaml
	config *config.Config
	user   *rights.ID  // the user that forsd runs as
	status *api.Status // of a running forsd; nil if none answers
}

func doctorCommand() *cobra.Command {
	var path, user string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything around forsd: OpenSM's settings, permissions, tools, devices",
		Long: `Doctor looks at all that forsd depends on and prints one line a check (ok, warn
or fail), with what to do: forsd's configuration, whether forsd answers, OpenSM's
process and settings, whether forsd's user has the permissions it needs, how
tables are read back, and the local RDMA devices with their umad and issm
nodes and port states. Run it as root to see everything.

Exit code 1: something fails.`,
		Example: "  sudo forsctl doctor\n  forsctl doctor --config ./forsd.yaml --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{ctx: cmd.Context(), path: path}
			d.checkConfig(cmd.Flags().Changed("config"))
			addr := d.config.API.Socket
			if given, _ := cmd.Flags().GetString("server"); given != defaultSocket {
				addr = given
			}
			d.checkDaemon(addr)
			d.checkAccess()
			d.checkManager()
			d.checkBoot()
			d.checkUser(user)
			d.checkFiles()
			d.checkReading()
			d.checkDevices(rdma.Devices())
			return d.report(cmd)
		},
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "forsd's configuration; the default one may be absent")
	cmd.Flags().StringVar(&user, "user", "forsd", "the user that forsd runs as")
	return cmd
}

// note adds a finding.
func (d *doctor) note(check string, g grade, format string, args ...any) {
	d.Checks = append(d.Checks, finding{check, g, fmt.Sprintf(format, args...)})
}

// report prints the findings. It fails if a check failed.
func (d *doctor) report(cmd *cobra.Command) error {
	failed := 0
	for _, f := range d.Checks {
		if f.Grade == fail {
			failed++
		}
	}
	d.OK = failed == 0
	err := command.Show(cmd, d.diagnosis, func(w io.Writer) {
		for _, f := range d.Checks {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Grade, f.Check, f.Text)
		}
	})
	if err == nil && failed > 0 {
		err = command.Violated{Err: fmt.Errorf("%s of %d failed", command.Plural(failed, "check", "checks"), len(d.Checks))}
	}
	return err
}

// checkConfig reads forsd.yaml. If the file cannot be used, the other checks continue with the
// defaults.
func (d *doctor) checkConfig(given bool) {
	cfg, err := config.Load(d.path)
	switch {
	case err == nil:
		d.note("config", good, "%s is valid", d.path)
	case !given && errors.Is(err, fs.ErrNotExist):
		d.note("config", good, "there is no %s: forsd works with its defaults", d.path)
	default:
		d.note("config", fail, "%v; the checks below take the defaults; see %s", err, health.Runbook(config.Refused))
	}
	if d.config = cfg; err != nil {
		d.config = config.Default()
	}
}

// checkDaemon asks forsd for its state.
func (d *doctor) checkDaemon(addr string) {
	c, err := api.Dial(addr)
	if err != nil {
		d.note("forsd", fail, "%v", err)
		return
	}
	defer c.Close()
	s, err := c.Status(d.ctx)
	if err != nil {
		d.note("forsd", fail, "%v", unreached(rights.Self(), addr, err))
		return
	}
	d.status = s
	switch {
	case !s.Ready && critical(s.Warnings) == 0:
		d.note("forsd", warn, "forsd %s answers at %s, and no verified epoch is in force yet: it is in state %s", s.Version, addr, s.State)
	case len(s.Warnings) > 0:
		grade, codes := warn, make([]string, len(s.Warnings))
		for i := range s.Warnings {
			codes[i] = s.Warnings[i].Code
		}
		if critical(s.Warnings) > 0 {
			grade = fail
		}
		d.note("forsd", grade, "epoch %d is in force, with %s (%s): see forsctl status --all", s.Epoch, command.Plural(len(codes), "warning", "warnings"), strings.Join(slices.Compact(codes), ", "))
	default:
		d.note("forsd", good, "forsd %s answers at %s, epoch %d is in force", s.Version, addr, s.Epoch)
	}
}
