// Package cli is forsctl, with one file for each command. Commands that plan work offline on
// files; commands that query or control talk to a running forsd.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/rights"
)

// Version is set at link time.
var Version = "development"

// Run executes forsctl with the arguments until it ends or is interrupted, and returns its exit
// code.
func Run(args []string, stdout, stderr io.Writer) int {
	return command.Run(Command(), args, stdout, stderr)
}

// Command returns forsctl with all its commands.
func Command() *cobra.Command {
	root := command.NewRoot(&cobra.Command{
		Use:   "forsctl",
		Short: "Plan, check and steer congestion-free all-to-all exchanges on InfiniBand fat trees",
		Long: `forsctl plans, checks and steers congestion-free all-to-all exchanges on
InfiniBand fat trees of two and three levels. Some commands work on files and need
nothing else; the others talk to a running forsd.

Exit code 0: done, and nothing is wrong; 1: what was checked is wrong, or forsd
refused; 2: the input cannot be used, or forsd cannot be reached. With --json a
command prints one JSON object on standard output, which begins with its schema and
version; messages go to standard error.`,
		Version: Version,
	})
	connection := connectionFlags()
	root.PersistentFlags().AddFlagSet(connection)
	addGroup(root, "Daily work, with a running forsd:",
		online(statusCommand()), online(watchCommand()), online(cablesCommand()), online(drainCommand()), online(drainsCommand()), online(undrainCommand()), online(historyCommand()), online(whatIfCommand()), online(jobCommand()), doctorCommand(), explainCommand())
	addGroup(root, "On files, without forsd:",
		offline(planCommand(), connection), offline(acceptanceCommand(), connection), offline(verifyCommand(), connection), offline(simulateCommand(), connection), offline(routesCommand(), connection), measureCommand(), topologyCommand(), diffCommand(), offline(rehearseCommand(), connection))
	addGroup(root, "Seldom, with a running forsd:",
		online(baselineCommand()), online(rerouteCommand()), online(rollbackCommand()), online(epochsCommand()), online(phasesCommand()), online(reportCommand()), supportCommand())
	addGroup(root, "Setup:",
		offline(setupCommand(), connection), online(reloadCommand()), online(tokenCommand()), offline(backupCommand(), connection), offline(restoreCommand(), connection), online(slurmCommand()))
	command.NoArgs(root)
	return root
}

// addGroup adds commands that --help shows under a common title.
func addGroup(root *cobra.Command, title string, cmds ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range cmds {
		c.GroupID = title
	}
	root.AddCommand(cmds...)
}

// registerFabric adds the flags of a fabric to a command. A running forsd completes --fail.
func registerFabric(f *command.Fabric, cmd *cobra.Command) {
	f.Register(cmd)
	if err := cmd.RegisterFlagCompletionFunc("fail", failureNames); err != nil {
		panic(err) // only if the flag has another name
	}
}

// online returns a command that queries a running forsd: its arguments are not files.
func online(c *cobra.Command) *cobra.Command {
	if c.ValidArgsFunction == nil {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	return c
}

// offline hides the flags about forsd from a command that works on files alone, and has it
// refuse them.
func offline(c *cobra.Command, connection *pflag.FlagSet) *cobra.Command {
	connection.VisitAll(func(f *pflag.Flag) {
		hidden := *f
		hidden.Hidden = true
		c.Flags().AddFlag(&hidden)
	})
	c.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if connection.Lookup(f.Name) != nil {
				err = fmt.Errorf("--%s: forsctl %s works on files and does not ask forsd", f.Name, cmd.Name())
			}
		})
		return err
	}
	return c
}

// defaultSocket is where forsd listens unless its configuration says otherwise.
const defaultSocket = "/run/forsd/forsd.sock"

// connectionFlags are the flags about forsd: its address, how long to wait for it, and for TLS
// the client's credentials and how it verifies forsd.
func connectionFlags() *pflag.FlagSet {
	f, files := pflag.NewFlagSet("", pflag.ContinueOnError), command.CredentialsFromEnvironment()
	f.String("server", cmp.Or(os.Getenv("FORSD_SERVER"), defaultSocket), "address of forsd: a socket path, http://host:port or https://host:port (environment FORSD_SERVER)")
	f.String("ca", files.CA, "PEM `file` of the authorities for https (environment FORSD_CA; default those of the system)")
	f.String("cert", files.Cert, "PEM `file` of a certificate to show over https (environment FORSD_CERT)")
	f.String("key", files.Key, "PEM `file` of its key (environment FORSD_KEY)")
	f.String("token-file", files.Token, "`file` with a token (environment FORSD_TOKEN_FILE)")
	f.Var(new(command.Duration), "timeout", "how long to wait for forsd, such as 5s (default as long as the request may take, up to 5m30s)")
	return f
}

// dial returns a client of the forsd that --server names.
func dial(cmd *cobra.Command) (*api.Client, error) {
	addr, _ := cmd.Flags().GetString("server")
	flag := func(name string) string { v, _ := cmd.Flags().GetString(name); return v }
	as, err := command.Credentials{CA: flag("ca"), Cert: flag("cert"), Key: flag("key"), Token: flag("token-file")}.Read()
	if err != nil {
		return nil, err
	}
	return api.DialAs(addr, as)
}

// with runs f with a client, and maps its error to an exit code.
func with(cmd *cobra.Command, f func(context.Context, *api.Client) error) error {
	c, err := dial(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := cmd.Context()
	if t := timeout(cmd); t > 0 {
		addr, _ := cmd.Flags().GetString("server")
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, fmt.Errorf("forsd at %s did not answer within %s: it is stopped or busy, see systemctl status forsd", addr, t))
		defer cancel()
	}
	err = f(ctx, c)
	if err != nil && ctx.Err() != nil && cmd.Context().Err() == nil {
		return context.Cause(ctx)
	}
	addr, _ := cmd.Flags().GetString("server")
	return command.Refused(unreached(rights.Self(), addr, err))
}

// unreached explains the error of a client that does not reach forsd: the cause, and a remedy.
func unreached(me *rights.ID, addr string, err error) error {
	socket := strings.TrimPrefix(addr, "unix:")
	remote := strings.Contains(addr, "://")
	var lack *rights.Lack
	switch {
	case err == nil:
	case errors.Is(err, syscall.ECONNREFUSED) && remote:
		return fmt.Errorf("%w: no forsd listens there: it is not running, or api.listen in its forsd.yaml is another address", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: forsd ended without removing its socket: run systemctl restart forsd", err)
	case errors.Is(err, fs.ErrNotExist) && !remote:
		return fmt.Errorf("%w: forsd is not running, see systemctl status forsd, or it listens elsewhere: --server names its socket (api.socket in forsd.yaml)", err)
	case errors.Is(err, fs.ErrPermission) && !remote && errors.As(me.May(rights.Write, socket), &lack):
		if group := lack.Group(); lack.ByGroup() {
			return fmt.Errorf("%w: user %s is not in the group %s, or was not when this session began: use sudo, or run sudo usermod -aG %s %s and log in again", err, lack.User, group, group, lack.User)
		}
		return fmt.Errorf("%w: %w: use sudo", err, lack)
	}
	return err
}

// timeout returns how long the command waits for forsd; 0 means without limit.
func timeout(cmd *cobra.Command) time.Duration {
	t, _ := cmd.Flags().GetDuration("timeout")
	return t
}

// ask sends a request to an endpoint for which the client has no method.
func ask(cmd *cobra.Command, method, path string, out any) error {
	return with(cmd, func(ctx context.Context, c *api.Client) error { return c.Call(ctx, method, path, nil, out) })
}
