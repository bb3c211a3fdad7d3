package forsplan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/nics"
	"github.com/forsd/forsd/internal/sessions"
)

// ofGPUs has the commands for sessions of GPU exchanges.
var ofGPUs = sessionKind[sessions.GPUSession, sessions.GPUFrame]{path: "/v1/gpu/sessions", frame: "frame", size: "GPUs", figures: "mode\tlength\tpredicted",
	parts: func(s *sessions.GPUSession) (*sessions.Session, []sessions.GPUFrame) { return &s.Session, s.Frames },
	about: func(s *sessions.GPUSession) (size int, line, failed string) {
		return s.GPUs, "cluster\t" + command.Plural(s.GPUs, "GPU", "GPUs"), gpuFailuresText(&s.GPUFailures)
	},
	row: func(f *sessions.GPUFrame) (_ *sessions.Frame, figures, failed string) {
		return &f.Frame, fmt.Sprintf("%s\t%d, %s\t%s", f.Mode, f.Length, overText(f.Length, f.Bound), command.Seconds(f.PredictedSeconds)), gpuFailuresText(&f.GPUFailures)
	}}

// gpuFailuresText lists the failures of a cluster.
func gpuFailuresText(x *sessions.GPUFailures) string {
	return failedText(eachOf("NIC ", x.BadNICs), eachOf("GPU ", x.DeadGPUs))
}

func gpuSessionCommand() *cobra.Command {
	return ofGPUs.group(&cobra.Command{
		Short: "Plan the exchanges of a job, one after the other, by a forsplan that runs",
		Long: `A session is a cluster whose exchanges (frames) forsplan serve plans one after the
other: what does not change is said once, and what fails in between is planned around
from the next frame on. Sessions are named by number. They end when they have not been
asked for during an hour.`,
		Example: `  forsplan serve &
  id=$(forsplan gpu session open --servers 8 --gpus-per-server 8 --name moe --id)
  forsplan gpu session frame $id --traffic bytes.csv --programs frame.json
  forsplan gpu session fail $id --bad-nic 3:5
  forsplan gpu session show $id
  forsplan gpu session end $id`,
	}, sessionOpenCommand(), sessionFrameCommand(), sessionFailCommand())
}

// sessionOpening is the body of POST /v1/gpu/sessions.
type sessionOpening struct {
	Name    string `json:"name"`
	Servers int    `json:"servers"`
	sessions.GPURequest
}

func sessionOpenCommand() *cobra.Command {
	var q sessionOpening
	var site siteFlags
	var nics string
	cmd := &cobra.Command{
		Use: "open --servers N --gpus-per-server N | --site FILE",
		Long: `Open takes a cluster and how its exchanges are to be planned: the flags of forsplan gpu
schedule but those of the traffic and of the answer. An exchange of nothing is planned
first, which finds mistakes.`,
		Example: "  forsplan gpu session open --servers 8 --gpus-per-server 8 --name moe --max-stretch 1.05",
	}
	site.register(cmd)
	registerOptions(cmd, &q.Options)
	fs := cmd.Flags()
	fs.IntVar(&q.Servers, "servers", 0, "servers")
	fs.IntVar(&q.GPUsPerServer, "gpus-per-server", 0, "GPUs, and NICs, of a server")
	fs.BoolVar(&q.Fabric, "fabric", false, "the NICs are hosts of the fabric that the forsd of forsplan serve --forsd looks after: plan around those that are down, and pin the stages on its lanes")
	fs.StringVar(&nics, "nics", "", "with --fabric: the hosts that are the NICs, a line each, server by server (default: all hosts, in the order of forsctl topology)")
	return ofGPUs.opening(cmd, &q.Name, func() (_ any, err error) {
		cluster := trafficFlags{gpusPerServer: q.GPUsPerServer}
		if q.Site, err = site.read(&cluster); err != nil {
			return nil, err
		}
		q.NICs, err = readNICs(nics)
		q.BadNICs, q.DeadGPUs, q.Rails = site.nics, site.gpus, site.rails
		q.B1, q.B2, q.Latency, q.Budget = &q.Model.B1, &q.Model.B2, q.Model.Latency.String(), q.Options.Budget.String()
		return q, err
	})
}

func sessionFailCommand() *cobra.Command {
	var site siteFlags
	cmd := &cobra.Command{
		Use: "fail SESSION --bad-nic SERVER:NIC… | --dead-gpu SERVER:GPU… | --none",
		Long: `Fail says what has failed of a session's cluster, in place of what was named before. The
next frame is planned around it.`,
		Example: "  forsplan gpu session fail 1 --bad-nic 3:5 --bad-nic 0:2:50\n  forsplan gpu session fail 1 --none",
	}
	site.registerFailures(cmd)
	return ofGPUs.failing(cmd, "--bad-nic and --dead-gpu", "all NICs and GPUs", func() (q any, some bool, err error) {
		return sessions.GPUFailures{BadNICs: site.nics, DeadGPUs: site.gpus}, len(site.nics)+len(site.gpus) > 0, nil
	})
}

// sessionFrameFlags are the flags of forsplan gpu session frame.
type sessionFrameFlags struct {
	trafficFlags
	programs string
	rank     int
}

func sessionFrameCommand() *cobra.Command {
	var f sessionFrameFlags
	cmd := &cobra.Command{
		Use:   "frame SESSION --traffic FILE",
		Short: "Plan the next exchange of a session",
		Long: `Frame plans what each GPU has for each other now, on the session's cluster
without what has failed of it. Input and answer are those of forsplan gpu schedule.`,
		Example: "  forsplan gpu session frame 1 --traffic bytes.csv --programs frame.json",
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.registerInput(cmd)
	cmd.Flags().StringVar(&f.programs, "programs", "", "write the lists of all ranks to this file, as JSON; - is standard output")
	cmd.Flags().IntVar(&f.rank, "rank", -1, "with --programs: that of this rank alone")
	return cmd
}

// run requests the session, whose cluster determines how the traffic is read, and then the
// plan.
func (f *sessionFrameFlags) run(cmd *cobra.Command, session string) error {
	if err := command.CheckOutputs(cmd, command.Output{Flag: "programs", Path: f.programs, What: "the ranks' lists"}); err != nil {
		return err
	}
	if f.rank >= 0 && f.programs == "" {
		return errors.New("--rank goes with --programs: name a file for the rank's lists")
	}
	var s sessions.GPUSession
	if err := with(cmd, func(ctx context.Context, c *api.Client) error {
		return c.Call(ctx, http.MethodGet, ofGPUs.of(session, ""), nil, &s)
	}); err != nil {
		return err
	}
	f.gpusPerServer = max(1, s.GPUsPerServer)
	f.servers = s.GPUs / f.gpusPerServer
	if f.once == string(gpu.ToServer) {
		return errors.New("--once server: a session plans matrices of bytes, want --once gpu or expert")
	}
	t, _, err := f.read(cmd)
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
	lists := func(r *nics.Report) any {
		list := r.Programs
		r.Programs = nil
		return list
	}
	return planFrame(cmd, ofGPUs.of(session, "/frames"), frame, f.programs, lists, func(w io.Writer, r *nics.Report, elapsed time.Duration) {
		printExchange(w, r.Report, elapsed)
		if r.Fabric != nil {
			printLanes(w, r.Fabric, len(r.Stages))
		}
	})
}
