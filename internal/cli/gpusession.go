package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/internal/command"
)

func gpuSessionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "Have forsd plan the exchanges of a job, one after the other",
		Long: `A session is a cluster whose exchanges (frames) a running forsd plans one after the
other: what does not change is said once, and what fails in between is planned around
from the next frame on. Sessions are named by number. They outlast a restart of forsd,
and end where nobody asks for them during an hour.`,
		Example: `  id=$(forsctl gpu session open --servers 8 --gpus-per-server 8 --name moe --id)
  forsctl gpu session frame $id --traffic bytes.csv --programs frame.json
  forsctl gpu session fail $id --bad-nic 3:5
  forsctl gpu session show $id
  forsctl gpu session end $id`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(sessionOpenCommand(), ofGPUs.listCommand(),
		ofGPUs.command("show", "Show a session with its latest frames", http.MethodGet), sessionFrameCommand(), sessionFailCommand(),
		ofGPUs.command("end", "End a session", http.MethodDelete))
	return cmd
}

// ofGPUs are the sessions of GPU exchanges.
var ofGPUs = sessions[api.GPUSession]{path: "/v1/gpu/sessions", head: func(s *api.GPUSession) *api.Session { return &s.Session },
	size: "GPUs", print: printSession, about: func(s *api.GPUSession) (size int, failed string) {
		return s.GPUs, failedText(s.BadNICs, s.DeadGPUs)
	}}

// sessionOpening is the body of POST /v1/gpu/sessions.
type sessionOpening struct {
	Name    string `json:"name"`
	Servers int    `json:"servers"`
	lanes.Request
}

func sessionOpenCommand() *cobra.Command {
	var q sessionOpening
	var site siteFlags
	var nics string
	var id bool
	cmd := &cobra.Command{
		Use:   "open --servers N --gpus-per-server N | --site FILE",
		Short: "Open a session",
		Long: `Open has forsd keep a cluster and how its exchanges are to be planned: the flags of
forsctl gpu schedule but those of the traffic and of the answer. An exchange of nothing
is planned first, which finds mistakes.`,
		Example: "  forsctl gpu session open --servers 8 --gpus-per-server 8 --name moe --max-stretch 1.05",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cluster := trafficFlags{gpusPerServer: q.GPUsPerServer}
			if q.Site, err = site.read(&cluster); err != nil {
				return err
			}
			if q.NICs, err = readNICs(nics); err != nil {
				return err
			}
			q.BadNICs, q.DeadGPUs, q.Rails = site.nics, site.gpus, site.rails
			q.B1, q.B2, q.Latency, q.Budget = &q.Model.B1, &q.Model.B2, q.Model.Latency.String(), q.Options.Budget.String()
			return ofGPUs.ask(cmd, http.MethodPost, "", "", q, id)
		},
	}
	site.register(cmd)
	registerOptions(cmd, &q.Options)
	fs := cmd.Flags()
	fs.IntVar(&q.Servers, "servers", 0, "servers")
	fs.IntVar(&q.GPUsPerServer, "gpus-per-server", 0, "GPUs, and NICs, of a server")
	fs.StringVar(&q.Name, "name", "", "what people call the session")
	fs.BoolVar(&q.Fabric, "fabric", false, "pin the stages on the lanes of the fabric that forsd looks after")
	fs.StringVar(&nics, "nics", "", "with --fabric: the hosts that are the NICs, a line each, server by server (default: all hosts, in the order of forsctl topology)")
	fs.BoolVar(&id, "id", false, "print the session's number and nothing else")
	return cmd
}

func printSession(w io.Writer, s *api.GPUSession) {
	fmt.Fprintf(w, "session\t%d%s\n", s.ID, inBrackets(s.Name))
	fmt.Fprintf(w, "cluster\t%s\n", command.Plural(s.GPUs, "GPU", "GPUs"))
	fmt.Fprintf(w, "opened\t%s, asked for last %s\n", clock(s.Opened), clock(s.Asked))
	fmt.Fprintf(w, "failed\t%s\n", failedText(s.BadNICs, s.DeadGPUs))
	fmt.Fprintf(w, "frames\t%d planned, %d refused\n", s.Planned, s.Refused)
	if len(s.Frames) > 0 {
		fmt.Fprintln(w, "\nframe\tat\tmode\tlength\tpredicted\tplanned in\tfailed")
	}
	for i := range s.Frames {
		f := &s.Frames[i]
		fmt.Fprintf(w, "%d\t%s\t%s\t%d, %s\t%s\t%s\t%s\n", f.Number, clock(f.At), f.Mode, f.Length, overText(f.Length, f.Bound),
			command.MS(1000*f.PredictedSeconds), command.MS(1000*f.PlanningSeconds), failedText(f.BadNICs, f.DeadGPUs))
	}
}

// failedText lists what has failed of a cluster.
func failedText(nics, gpus []string) string {
	var all []string
	for _, x := range nics {
		all = append(all, "NIC "+x)
	}
	for _, x := range gpus {
		all = append(all, "GPU "+x)
	}
	return cmp.Or(strings.Join(all, ", "), "-")
}

func sessionFailCommand() *cobra.Command {
	var site siteFlags
	var none bool
	cmd := &cobra.Command{
		Use: "fail SESSION --bad-nic SERVER:NIC… | --dead-gpu SERVER:GPU… | --none", ValidArgsFunction: atMost(1, ofGPUs.ids()),
		Short: "Say what has failed, all of it",
		Long: `Fail says what has failed of a session's cluster, in place of what was named before. The
next frame is planned around it.`,
		Example: "  forsctl gpu session fail 1 --bad-nic 3:5 --bad-nic 0:2:50\n  forsctl gpu session fail 1 --none",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if none == (len(site.nics)+len(site.gpus) > 0) {
				return errors.New("say by --bad-nic and --dead-gpu what has failed, or by --none that all is well again")
			}
			return ofGPUs.ask(cmd, http.MethodPost, args[0], "/failures", api.GPUFailures{BadNICs: site.nics, DeadGPUs: site.gpus}, false)
		},
	}
	site.registerFailures(cmd)
	cmd.Flags().BoolVar(&none, "none", false, "all NICs and GPUs are well again")
	return cmd
}

// sessionFrameFlags are the flags of forsctl gpu session frame.
type sessionFrameFlags struct {
	trafficFlags
	programs string
	rank     int
}

func sessionFrameCommand() *cobra.Command {
	var f sessionFrameFlags
	cmd := &cobra.Command{
		Use: "frame SESSION --traffic FILE", ValidArgsFunction: atMost(1, ofGPUs.ids()),
		Short: "Plan the next exchange of a session",
		Long: `Frame has forsd plan what each GPU has for each other now, on the session's cluster
without what has failed of it. Input and answer are those of forsctl gpu schedule.`,
		Example: "  forsctl gpu session frame 1 --traffic bytes.csv --programs frame.json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.registerInput(cmd)
	cmd.Flags().StringVar(&f.programs, "programs", "", "write the lists of all ranks to this file, as JSON; - is standard output")
	cmd.Flags().IntVar(&f.rank, "rank", -1, "with --programs: that of this rank alone")
	return cmd
}

// run asks for the session, so that the traffic can be read as that of its cluster, and then
// for the plan.
func (f *sessionFrameFlags) run(cmd *cobra.Command, session string) error {
	if err := checkOuts(cmd, output{"programs", f.programs, "the ranks' lists"}); err != nil {
		return err
	}
	if f.rank >= 0 && f.programs == "" {
		return errors.New("--rank goes with --programs: name a file for the rank's lists")
	}
	var s api.GPUSession
	if err := ask(cmd, http.MethodGet, ofGPUs.of(session, ""), &s); err != nil {
		return err
	}
	f.gpusPerServer = max(1, s.GPUsPerServer)
	f.servers = s.GPUs / f.gpusPerServer
	t, err := f.read(cmd)
	if err != nil {
		return err
	}
	if t.Ranks() != s.GPUs {
		return fmt.Errorf("the traffic is of %s, and session %s of %d", command.Plural(t.Ranks(), "GPU", "GPUs"), session, s.GPUs)
	}
	frame := map[string]any{"traffic": slices.Collect(slices.Chunk(t.Bytes, t.Ranks())), "programs": f.programs != ""}
	if f.rank >= 0 {
		frame["rank"] = f.rank
	}
	start := time.Now()
	return with(cmd, func(ctx context.Context, c *api.Client) error {
		var r lanes.Report
		done := command.Working(cmd, "planning")
		err := c.Call(ctx, http.MethodPost, ofGPUs.of(session, "/frames"), frame, &r)
		done()
		if err != nil {
			return err
		}
		elapsed := time.Since(start)
		if f.programs != "" {
			list, err := json.Marshal(r.Programs)
			if err == nil {
				err = writeOut(cmd, f.programs, append(list, '\n'))
			}
			if err != nil || f.programs == "-" {
				return err
			}
			r.Programs = nil
		}
		return command.Show(cmd, r, func(w io.Writer) {
			printExchange(w, r.Report, elapsed)
			if r.Fabric != nil {
				printLanes(w, r.Fabric, len(r.Stages))
			}
		})
	})
}
