package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/topology"
)

// The old opensm.conf is kept under its own name with one of these suffixes: the file before
// the first forsctl setup, and the file before the undo.
const (
	beforeSetup = ".before-forsd"
	beforeUndo  = ".with-forsd"
)

// setup is a run of forsctl setup, and its output with --json.
type setup struct {
	Conf     string           `json:"conf"`             // OpenSM's configuration
	Backup   string           `json:"backup,omitempty"` // its first copy; "" if setup wrote nothing
	Source   string           `json:"source,omitempty"` // where the fabric was read from
	Hosts    int              `json:"hosts,omitempty"`  // adapter ports, each with 2^LMC LIDs
	Switches int              `json:"switches,omitempty"`
	Lanes    int              `json:"lanes,omitempty"` // 0 if no plan can be made for the fabric
	LMC      int              `json:"lmc,omitempty"`
	Highest  int              `json:"highest_lid,omitempty"` // about
	Plugin   string           `json:"plugin,omitempty"`      // path of OpenSM's plugin; "" if it is not installed
	Changes  []opensm.Change  `json:"changes"`
	Diff     string           `json:"diff"`
	Written  bool             `json:"written"`
	Warnings []health.Warning `json:"warnings"` // about the settings including the changes
	Notes    []string         `json:"notes"`

	dryRun        bool
	config        *config.Config
	before, after []byte
	process       *opensm.Process
	want          opensm.Want
	boot          bool // start forsd and OpenSM at boot
}

func setupCommand() *cobra.Command {
	var dryRun, undo bool
	var path, conf, topologyFile string
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Write what OpenSM needs into opensm.conf, for the fabric that there is",
		Long: `Setup finds out what has to change in opensm.conf for forsd, shows it as a diff,
and writes it: the LMC that gives each host an LID for each lane of this fabric, or
the largest one whose LIDs there are; the routing engine; the plugin, if it is
installed; the table file; and whatever else defeats forsd. Lines that do not concern
forsd stay as they are. It also has forsd and OpenSM started at boot. It restarts
nothing: most settings count when OpenSM is restarted, and with another LMC the hosts
get other LIDs.

The fabric is read from what OpenSM has dumped, or else by ibnetdiscover, or from
--topology. The file as it was is kept as opensm.conf` + beforeSetup + `; --undo brings it back.`,
		Example: "  sudo forsctl setup --dry-run\n  sudo forsctl setup\n  sudo systemctl restart opensm forsd\n  sudo forsctl setup --undo",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := &setup{dryRun: dryRun, boot: conf == "", Changes: []opensm.Change{}, Warnings: []health.Warning{}, Notes: []string{}}
			var err error
			if s.config, err = stateConfig(cmd, path); err == nil {
				err = s.find(cmd.Context(), path, conf)
			}
			if err == nil && undo {
				err = s.undo(cmd.Context())
			} else if err == nil {
				err = s.do(cmd.Context(), topologyFile)
			}
			if err != nil {
				return err
			}
			return command.Show(cmd, s, func(w io.Writer) { s.print(w, undo) })
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	cmd.Flags().BoolVar(&undo, "undo", false, "bring back opensm.conf as it was before, and stop forsd")
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "forsd's configuration; the default one may be absent")
	cmd.Flags().StringVar(&conf, "conf", "", "work on this opensm.conf and on nothing else (default: that of the running OpenSM, or opensm.conf in forsd.yaml)")
	cmd.Flags().StringVar(&topologyFile, "topology", "", "output of ibnetdiscover, or an opensm-subnet.lst (default: the fabric as it is)")
	return cmd
}

// find reads the configuration of OpenSM.
func (s *setup) find(ctx context.Context, path, conf string) (err error) {
	c := &s.config.OpenSM
	if len(c.DiscoverCommand) > 0 {
		return fmt.Errorf("%s has a discover_command, so OpenSM is on another host: run forsctl setup there", path)
	}
	if s.Conf = conf; conf == "" {
		if p, err := c.Finder().Find(ctx); err == nil {
			s.process = &p
		}
		settings, _ := opensm.LoadSettings(s.process, c.Conf) // setup proposes corrections for invalid settings
		s.Conf = settings.Conf
	}
	s.before, err = command.ReadPath(s.Conf, command.MaxText)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if s.want = c.Want(0); s.want.Socket != "" {
		if s.Plugin = findPlugin(); s.Plugin == "" {
			s.Notes = append(s.Notes, opensm.PluginFile+" is not where the dynamic linker looks, so that OpenSM is to work by the table file alone, which takes a second sweep: install it, run ldconfig, and run setup again")
		}
	}
	return err
}

// do proposes the changes, and writes them unless this is a dry run.
func (s *setup) do(ctx context.Context, topologyFile string) error {
	fabric, err := s.fabric(ctx, topologyFile)
	if err != nil {
		return err
	}
	s.measure(fabric)
	settings, _ := opensm.ReadConf(s.before)
	s.Changes = append(s.Changes, settings.Propose(s.want, s.LMC, s.Plugin != "")...)
	s.after = opensm.Apply(s.before, s.Changes)
	s.Diff = string(diff.Diff(s.Conf, s.before, s.Conf+" with forsd", s.after))
	if !s.dryRun {
		if err := s.write(); err != nil {
			return err
		}
		if s.boot && s.systemctl(ctx, "forsd.service starts at boot, and with OpenSM", "enable", "forsd.service") {
			if state, found := bootState(ctx); found && !state.manager {
				s.systemctl(ctx, "opensm.service starts at boot", "add-wants", "multi-user.target", "opensm.service")
			}
		}
	}
	s.judge()
	return nil
}

// fabric reads the fabric from a file, from OpenSM's dump, or with ibnetdiscover.
func (s *setup) fabric(ctx context.Context, file string) (*topology.Fabric, error) {
	dump := filepath.Join(s.config.OpenSM.DumpDir, opensm.SubnetFile)
	if s.process != nil {
		if settings, err := opensm.LoadSettings(s.process, s.Conf); err == nil {
			dump = filepath.Join(settings.DumpDir, opensm.SubnetFile)
		}
	}
	if s.Source = file; file == "" {
		s.Source = dump
		for wait := 0; wait < 20 && s.process != nil && !exists(dump); wait++ { // OpenSM may have just started
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	data, err := command.ReadPath(s.Source, command.MaxFile)
	if err != nil && file == "" {
		s.Source = "ibnetdiscover"
		tool, bad := opensm.Program("ibnetdiscover")
		if bad == nil {
			data, bad = exec.CommandContext(ctx, tool).Output()
		}
		if failed, ok := errors.AsType[*exec.ExitError](bad); ok {
			bad = fmt.Errorf("%w: %s", bad, strings.TrimSpace(string(failed.Stderr)))
		}
		if bad != nil {
			return nil, fmt.Errorf("find out the fabric: %w, and ibnetdiscover: %w; start OpenSM, or give the fabric by --topology", err, bad)
		}
		err = nil
	}
	if err != nil {
		return nil, err
	}
	f, _, err := topology.Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Source, err)
	}
	f.SetRoles(topology.Roles(s.config.Planning.Roles))
	return f, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// measure counts the parts that determine the LMC.
func (s *setup) measure(f *topology.Fabric) {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Kind == topology.Switch {
			s.Switches++
			continue
		}
		for p := range n.Ports {
			if n.Ports[p].Connected() {
				s.Hosts++
			}
		}
	}
	base, err := topology.Recognise(f)
	if err != nil {
		s.Notes = append(s.Notes, fmt.Sprintf("how many lanes the fabric has cannot be told, so the LMC stays as it is: %v", err))
		return
	}
	lids, lanes := podplan.LIDs(base)
	s.Lanes, s.want.Lanes = lanes, lanes
	lmc, enough := opensm.SuitableLMC(lids, s.Hosts, s.Switches)
	if s.LMC = lmc; !enough {
		s.Notes = append(s.Notes, fmt.Sprintf("an LID for each of %d lanes would take more LIDs than there are (%d): with LMC %d plans take a few phases more, see forsctl plan --lids",
			s.Lanes, ib.MaxUnicastLID, s.LMC))
	}
	if s.config.OpenSM.LMC >= 0 {
		s.LMC = int(s.config.OpenSM.LMC)
	}
	s.Highest = opensm.HighestLID(s.LMC, s.Hosts, s.Switches)
}

// write replaces opensm.conf and keeps the first version.
func (s *setup) write() error {
	if len(s.Changes) == 0 {
		return nil
	}
	backup := s.Conf + beforeSetup
	if !exists(backup) {
		if err := os.MkdirAll(filepath.Dir(s.Conf), 0o755); err != nil {
			return fmt.Errorf("write opensm.conf: %w: run setup as root", err)
		}
		if err := renameio.WriteFile(backup, s.before, 0o644); err != nil {
			return fmt.Errorf("keep a copy of %s: %w: run setup as root", s.Conf, err)
		}
	}
	if err := renameio.WriteFile(s.Conf, s.after, 0o644); err != nil {
		return fmt.Errorf("write opensm.conf: %w: run setup as root", err)
	}
	s.Backup, s.Written = backup, true
	return nil
}

// judge collects the problems that remain after the changes.
func (s *setup) judge() {
	settings, _ := opensm.ReadConf(s.after)
	if s.Written {
		settings, _ = opensm.LoadSettings(s.process, s.Conf) // including OpenSM's command line
	}
	settings.Conf = s.Conf
	for _, w := range settings.Check(s.want) {
		if w.Code != opensm.RestartNeeded && w.Code != opensm.LMCTooSmall { // the notes cover these two
			s.Warnings = append(s.Warnings, w)
		}
	}
}

// undo restores the first version, and keeps a copy of the file that it replaces.
func (s *setup) undo(ctx context.Context) error {
	backup := s.Conf + beforeSetup
	old, err := command.ReadPath(backup, command.MaxText)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s: forsctl setup has not written %s", backup, s.Conf)
	} else if err != nil {
		return err
	}
	s.after = old
	s.Diff = string(diff.Diff(s.Conf, s.before, s.Conf+" without forsd", s.after))
	if s.dryRun {
		return nil
	}
	s.Backup = s.Conf + beforeUndo
	if err := renameio.WriteFile(s.Backup, s.before, 0o644); err != nil {
		return fmt.Errorf("keep a copy of %s: %w: run setup as root", s.Conf, err)
	}
	if err := renameio.WriteFile(s.Conf, s.after, 0o644); err != nil {
		return fmt.Errorf("write opensm.conf: %w", err)
	}
	s.Written = true
	if s.boot {
		s.systemctl(ctx, "forsd.service is stopped, and does not start at boot", "disable", "--now", "forsd.service")
	}
	return os.Remove(backup)
}

// systemctl runs systemctl, and adds the note, or the error if the command fails.
func (s *setup) systemctl(ctx context.Context, note string, args ...string) bool {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		note = fmt.Sprintf("systemctl %s fails (%v): %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	s.Notes = append(s.Notes, note)
	return err == nil
}

// print prints the findings, the changes, and the next steps.
func (s *setup) print(w io.Writer, undo bool) {
	if s.Source != "" {
		fmt.Fprintf(w, "fabric   %s: %s, %s, %s\n", s.Source, command.Plural(s.Hosts, "host port", "host ports"), command.Plural(s.Switches, "switch", "switches"), command.Plural(s.Lanes, "lane", "lanes"))
	}
	if s.Lanes > 0 {
		fmt.Fprintf(w, "lmc      %d: %s for each host port, LIDs up to about %d of %d\n", s.LMC, command.Plural(1<<s.LMC, "LID", "LIDs"), s.Highest, ib.MaxUnicastLID)
	}
	if s.Plugin != "" && !undo {
		fmt.Fprintf(w, "plugin   %s\n", s.Plugin)
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(w, "%-8s %s: %s\n", "warning", warning.Title, warning.Text)
	}
	for _, note := range s.Notes {
		fmt.Fprintf(w, "note     %s\n", note)
	}
	switch {
	case s.Diff == "":
		fmt.Fprintf(w, "\n%s is as forsd needs it.\n", s.Conf)
		return
	case !s.Written:
		fmt.Fprintf(w, "\n%s\nNothing was written. Without --dry-run %s is changed so.\n", s.Diff, s.Conf)
		return
	}
	next, back := "opensm forsd", "Back: forsctl setup --undo\n"
	if undo {
		next, back = "opensm", ""
	}
	fmt.Fprintf(w, "\n%s\n%s is written; as it was, it is in %s.\nNext: systemctl restart %s, in a maintenance window: LIDs and routes may change.\n%s", s.Diff, s.Conf, s.Backup, next, back)
}
