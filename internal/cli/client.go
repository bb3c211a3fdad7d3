package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/credentials"
	"github.com/forsd/forsd/internal/rights"
)

// online returns a command that queries a running forsd: its arguments are not files.
func online(c *cobra.Command) *cobra.Command {
	if c.ValidArgsFunction == nil {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	return c
}

// connection are the flags about forsd, which offline commands do not take.
var connection = []string{"server", "ca", "cert", "key", "token-file", "timeout"}

// offline returns a command that works on files alone: its help lacks the flags about forsd,
// which root has, and it refuses them.
func offline(root, c *cobra.Command) *cobra.Command {
	for _, name := range connection {
		hidden := *root.PersistentFlags().Lookup(name)
		hidden.Hidden = true
		c.Flags().AddFlag(&hidden)
	}
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		for _, name := range connection {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s: forsctl %s works on files and does not ask forsd", name, cmd.Name())
			}
		}
		return run(cmd, args)
	}
	return c
}

// defaultSocket is where forsd listens unless its configuration says otherwise.
const defaultSocket = "/run/forsd/forsd.sock"

// defaultServer is forsd's socket, unless the environment names another place.
func defaultServer() string { return cmp.Or(os.Getenv("FORSD_SERVER"), defaultSocket) }

// credentialFlags adds the flags for TLS: the client's credentials, and how it verifies forsd.
func credentialFlags(root *cobra.Command) {
	f, files := root.PersistentFlags(), credentials.FromEnvironment()
	f.String("ca", files.CA, "PEM `file` of the authorities for https (environment FORSD_CA; default those of the system)")
	f.String("cert", files.Cert, "PEM `file` of a certificate to show over https (environment FORSD_CERT)")
	f.String("key", files.Key, "PEM `file` of its key (environment FORSD_KEY)")
	f.String("token-file", files.Token, "`file` with a token (environment FORSD_TOKEN_FILE)")
}

// dial returns a client of the forsd that --server names.
func dial(cmd *cobra.Command) (*api.Client, error) {
	addr, _ := cmd.Flags().GetString("server")
	flag := func(name string) string { v, _ := cmd.Flags().GetString(name); return v }
	as, err := credentials.Files{CA: flag("ca"), Cert: flag("cert"), Key: flag("key"), Token: flag("token-file")}.Read()
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
	return sorted(unreached(rights.Self(), addr, err))
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
			return fmt.Errorf("%w: user %s is not in the group %s, or was not when this session began: use sudo, or run sudo usermod -aG %s %s and log in anew", err, lack.User, group, group, lack.User)
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

// sorted turns forsd's refusals into violations. A malformed question, or one about something
// that does not exist, remains invalid input.
func sorted(err error) error {
	var e *api.Error
	if errors.As(err, &e) && e.Status != http.StatusBadRequest && e.Status != http.StatusNotFound {
		return command.Violated{Err: err}
	}
	return err
}
