package forsplan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/nics"
	"github.com/forsd/forsd/internal/rights"
	"github.com/forsd/forsd/internal/sessions"
)

// socketFlag adds the flag that names the socket of forsplan serve.
func socketFlag(cmd *cobra.Command) {
	path := os.Getenv("FORSPLAN_SOCKET")
	if dir := os.Getenv("XDG_RUNTIME_DIR"); path == "" && dir != "" {
		path = filepath.Join(dir, "forsplan.sock")
	}
	cmd.PersistentFlags().String("socket", path, "`path` of the socket of forsplan serve (environment FORSPLAN_SOCKET; default forsplan.sock in $XDG_RUNTIME_DIR)")
}

// socketOf returns the path that --socket has.
func socketOf(cmd *cobra.Command) (string, error) {
	path, _ := cmd.Flags().GetString("socket")
	if path == "" {
		return "", errors.New("--socket is missing: name the socket of forsplan serve")
	}
	return filepath.Abs(path)
}

// registerForsd adds the flag that names a forsd.
func registerForsd(cmd *cobra.Command, addr *string) {
	cmd.Flags().StringVar(addr, "forsd", "", "`address` of a forsd that looks after the fabric between the NICs, to plan around those that are down and to pin stages on its lanes: a socket path, http://host:port or https://host:port (with the environment FORSD_CA, FORSD_CERT, FORSD_KEY and FORSD_TOKEN_FILE)")
}

// dialForsd returns the fabric of a forsd.
func dialForsd(addr string) (nics.Fabric, error) {
	as, err := command.CredentialsFromEnvironment().Read()
	if err != nil {
		return nics.Fabric{}, err
	}
	c, err := api.DialAs(addr, as)
	return nics.Fabric{Client: c}, err
}

func serveCommand() *cobra.Command {
	var state, forsd string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve sessions: exchanges of GPUs, or matrices of circuit switches, one after the other",
		Long: `Serve plans for the commands forsplan gpu session and forsplan ocs session, and for other
programs, over HTTP on a Unix socket that only its user may use (docs/forsplan.yaml
describes it). It runs until it is interrupted, and says on standard error what becomes
of sessions. With --state they are kept in a file over a restart. It needs neither forsd
nor OpenSM; with --forsd, the NICs of sessions may be hosts of a fabric.`,
		Example: `  forsplan serve
  forsplan serve --state sessions.json --forsd https://fabric:9444`,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, state, forsd) },
	}
	socketFlag(cmd)
	registerForsd(cmd, &forsd)
	cmd.Flags().StringVar(&state, "state", "", "file that keeps the sessions over a restart")
	return cmd
}

// serve answers requests until the program is interrupted.
func serve(cmd *cobra.Command, state, forsd string) (err error) {
	path, err := socketOf(cmd)
	if err != nil {
		return err
	}
	var fabric nics.Fabric
	if forsd != "" {
		if fabric, err = dialForsd(forsd); err != nil {
			return err
		}
		defer fabric.Client.Close()
	}
	log := func(text string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s %s\n", time.Now().Format(time.RFC3339), text)
	}
	s := sessions.New(fabric, log)
	if state != "" {
		if err := s.Keep(state); err != nil {
			log(fmt.Sprintf("earlier sessions are lost: %v", err))
		}
	}
	l, err := rights.Listen(path, 0o600)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	log("listening on " + path)
	select {
	case err = <-ended:
	case <-cmd.Context().Done():
		const grace = 5 * time.Second // for the requests that are under way
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), grace)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			err = server.Close()
		}
	}
	return cmp.Or(s.Save(), err)
}

// with runs f with a client of the forsplan serve that --socket names, and maps its error to an
// exit code.
func with(cmd *cobra.Command, f func(context.Context, *api.Client) error) error {
	path, err := socketOf(cmd)
	if err != nil {
		return err
	}
	c, err := api.Dial(path)
	if err != nil {
		return err
	}
	defer c.Close()
	err = f(cmd.Context(), c)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("forsplan serve does not run on %s: start it, or name its socket by --socket", path)
	}
	return command.Refused(err)
}

// ids completes the argument SESSION. The shell waits for at most a second.
func (x *sessionKind[S, F]) ids(cmd *cobra.Command, args []string, _ string) (out []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	cmd.SetContext(ctx)
	_ = with(cmd, func(ctx context.Context, c *api.Client) error { // without an answer nothing is completed
		all, err := x.all(ctx, c)
		for _, s := range all["sessions"] {
			h, _ := x.parts(&s)
			size, _, _ := x.about(&s)
			out = append(out, cobra.CompletionWithDesc(fmt.Sprint(h.ID), fmt.Sprintf("%s, %d %s", h.Name, size, x.size)))
		}
		return err
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}
