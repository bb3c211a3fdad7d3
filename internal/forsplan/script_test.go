package forsplan

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/internal/cli"
	"github.com/forsd/forsd/internal/rights"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
	"github.com/forsd/forsd/topology"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"forsplan": func() { os.Exit(Run(os.Args[1:], os.Stdout, os.Stderr)) },
		"forsctl":  func() { os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr)) },
		"fabgen":   fabgen.Main,
	})
}

// TestScripts runs the scripts in testdata/script. They have the commands forsplan and
// forsctl, fabgen to print a generated fabric, and
//
//	forsd SOCKET           answer as a forsd that looks after a fat tree, host 6 of which is down
//	await FILE             wait until a file exists
//	exits CODE COMMAND…    run a command that must end with this exit code
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": programs.Exits, "forsd": serveForsd, "await": await},
		Setup: func(e *testscript.Env) error {
			e.Setenv("TZ", "UTC")
			e.Setenv("XDG_RUNTIME_DIR", "")
			e.Setenv("FORSPLAN_SOCKET", "")
			return nil
		},
	})
}

// await is the script command await.
func await(ts *testscript.TestScript, _ bool, args []string) {
	for {
		_, err := os.Stat(ts.MkAbs(args[0]))
		if err == nil {
			return
		}
		if !errors.Is(err, fs.ErrNotExist) {
			ts.Fatalf("%v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// serveForsd is the script command forsd.
func serveForsd(ts *testscript.TestScript, _ bool, args []string) {
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	base, err := topology.NewBaseline(f)
	ts.Check(err)
	tree, err := topology.Fit(f, base, nil)
	ts.Check(err)
	mux := http.NewServeMux()
	send := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) } // fails only if the client has disconnected
	mux.HandleFunc("GET /v1/hosts", func(w http.ResponseWriter, _ *http.Request) {
		all := api.HostPorts{Lanes: tree.Lanes}
		for i, h := range tree.Hosts {
			all.Hosts = append(all.Hosts, api.HostPort{GUID: h.GUID, Name: h.Name, Percent: 100})
			if i == 6 {
				all.Hosts[i].Percent = 0
			}
		}
		send(w, all)
	})
	mux.HandleFunc("POST /v1/gpu/lanes", func(w http.ResponseWriter, r *http.Request) {
		var q lanes.Request
		err := json.NewDecoder(r.Body).Decode(&q)
		var plan *lanes.Plan
		if err == nil {
			plan, err = lanes.Pin(r.Context(), &q, tree)
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			send(w, api.BadRequest("%v", err))
			return
		}
		send(w, plan)
	})
	l, err := rights.Listen(ts.MkAbs(args[0]), 0o600)
	ts.Check(err)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // until the script ends
	ts.Defer(func() { _ = server.Close() })
}
