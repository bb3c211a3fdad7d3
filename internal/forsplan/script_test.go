package forsplan

import (
	"context"
	"log"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/cli"
	"github.com/forsd/forsd/internal/frames"
	"github.com/forsd/forsd/internal/tiers"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
	"github.com/forsd/forsd/topology"
)

func TestMain(m *testing.M) {
	worker.Main(tiers.Tasks())
	testscript.Main(m, map[string]func(){
		"forsplan": func() { os.Exit(Run(os.Args[1:], os.Stdout, os.Stderr)) },
		"forsctl":  func() { os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr)) },
		"fabgen":   fabgen.Main,
	})
}

// TestScripts runs the scripts of testdata/script, which have the commands forsplan and
// forsctl, fabgen to print a generated fabric, and
//
//	daemon SOCKET          serve sessions as forsd does
//	exits CODE COMMAND…    run a command that must end with this exit code
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": programs.Exits, "daemon": serveSessions},
		Setup: func(e *testscript.Env) error {
			e.Setenv("TZ", "UTC")
			e.Setenv("FORSD_SERVER", "")
			return nil
		},
	})
}

// serveSessions is the script command daemon.
func serveSessions(ts *testscript.TestScript, _ bool, args []string) {
	none := func() (*topology.Fabric, *topology.FatTree, *lft.Tables) { return nil, nil, nil }
	pool := worker.NewPool(worker.Defaults())
	gpus := frames.New(frames.OfGPUs(), pool, none, func(string, *api.GPUSession, *api.GPUFrame, string) {})
	switches := frames.New(frames.OfOCS(), pool, none, func(string, *api.OCSSession, *api.OCSPeriod, string) {})
	config := api.Config{Plans: &api.Plans{}, Events: api.NewEvents(1, time.Now()), Mount: gpus.Readers(), Local: gpus.Operators()}
	maps.Copy(config.Mount, switches.Readers())
	maps.Copy(config.Local, switches.Operators())
	server, err := api.Listen(config, api.Listeners{Socket: ts.MkAbs(args[0]), Mode: 0o600, Log: log.Default()})
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx) }()
	ts.Defer(func() {
		cancel()
		if err := <-ended; err != nil {
			ts.Logf("daemon: %v", err)
		}
	})
}
