package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/testbed/programs"
	"github.com/forsd/forsd/testbed/routed"
	"github.com/forsd/forsd/topology"
)

// header is a header of OpenSM's that building the library takes.
const header = "/usr/include/infiniband/opensm/osm_event_plugin.h"

// scratch is where the library is built.
var scratch string

func TestMain(m *testing.M) { programs.Scratch(m, &scratch) }

// library builds libforsosm.so once for all tests.
var library = sync.OnceValues(func() (string, error) {
	return filepath.Join(scratch, "libforsosm.so"), built.Make(context.Background(), "opensm/plugin", scratch, "CFLAGS=-O2 -g -Werror")
})

// site is a simulated fabric under an OpenSM with the plugin, and forsd's end.
type site struct {
	t        *testing.T
	ctx      context.Context  // ends with the test, or when nothing can come of it any more
	fabric   *topology.Fabric // as simulated, without LIDs
	sim      *ibsim.Sim
	m        *ibsim.OpenSM
	dir      string
	socket   string
	server   *Server // the latest
	events   chan Event
	outcomes chan Outcome                                        // as well, for tables
	tables   func(context.Context, Request) (*lft.Tables, error) // by serve
}

// deadline is what the OpenSM of a test waits for tables, unless told otherwise:
// as long as can be, since the machine may be busy.
const deadline = 10 * time.Second

// simulate starts the fabric, and nothing else.
func simulate(t *testing.T, spec fabgen.Spec) *site {
	t.Helper()
	if err := ibsim.Available(); err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		t.Skip("it starts OpenSM")
	}
	if _, err := os.Stat(header); err != nil {
		t.Skipf("building the library takes libopensm-dev: %v", err)
	}
	f := fabgen.Generate(spec)
	sim, err := ibsim.Start(t.Context(), ibsim.Options{Fabric: f, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*patience)
	t.Cleanup(cancel)
	s := &site{t: t, ctx: ctx, fabric: f, sim: sim, dir: filepath.Join(sim.Dir(), "opensm-1"), tables: planned,
		events: make(chan Event, 10000), outcomes: make(chan Outcome, 10000)}
	// The path of a socket is short, those of tests are not.
	short, err := os.MkdirTemp("", "fors-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	s.socket = filepath.Join(short, "sock")
	return s
}

// table is the path of the file that the engine "file" loads.
func (s *site) table() string { return filepath.Join(s.dir, "forsd.lfts") }

// start starts OpenSM with the plugin and no table file.
func (s *site) start(o ibsim.OpenSMOptions) {
	s.t.Helper()
	path, err := library()
	if err != nil {
		s.t.Fatal(err)
	}
	o.Host, o.RoutingEngine, o.LFTsFile, o.Dir, o.Plugin = "Hca0000", "fors,file,updn", s.table(), s.dir, path
	if o.PluginOptions == "" {
		o.PluginOptions = fmt.Sprintf("socket=%s deadline=%d", s.socket, deadline.Milliseconds())
	}
	if s.m, err = s.sim.StartOpenSM(s.ctx, o); err != nil {
		s.t.Fatal(err)
	}
}

// serve runs forsd's end until the function returned is called.
func (s *site) serve() (stop func()) {
	s.t.Helper()
	tables := s.tables
	server, err := Listen(Config{Path: s.socket, Tables: tables, Complain: func(err error) { s.t.Log(err) }, Event: func(e Event) {
		s.events <- e
		if o, ok := e.(Outcome); ok {
			s.outcomes <- o
		}
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.server = server
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(ctx); err != nil {
			s.t.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	s.t.Cleanup(stop)
	return stop
}

// planned are tables for every LID of the fabric as the sweep will leave it.
func planned(_ context.Context, r Request) (*lft.Tables, error) {
	return routed.Tables(AfterSweep(r.Fabric))
}

// patience is how long a test waits for an expected event.
const patience = 30 * time.Second

// next waits for an event of a kind and returns those before it as well.
func next[E Event](s *site) (E, []Event) {
	s.t.Helper()
	var before []Event
	late := time.After(patience)
	for {
		select {
		case e := <-s.events:
			if wanted, ok := e.(E); ok {
				return wanted, before
			}
			before = append(before, e)
		case <-late:
			var none E
			log, _ := s.m.Log()
			s.t.Fatalf("no %T came; before: %v\n%s", none, before, log)
			return none, nil
		}
	}
}

// dump is the fabric as OpenSM's dump and its cache of LIDs tell it.
func (s *site) dump() *topology.Fabric {
	s.t.Helper()
	lst, err := os.ReadFile(filepath.Join(s.dir, opensm.SubnetFile))
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := topology.ReadSubnetLst(lst)
	if err != nil {
		s.t.Fatal(err)
	}
	cache, err := os.ReadFile(filepath.Join(s.dir, opensm.GUID2LIDFile))
	if err != nil {
		s.t.Fatal(err)
	}
	ranges, err := topology.ReadGUID2LID(cache)
	if err == nil {
		err = f.ApplyGUID2LID(ranges)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

// readBack reads the tables out of the switches.
func (s *site) readBack() *lft.Tables {
	s.t.Helper()
	env, err := s.sim.Env("Hca0001")
	if err != nil {
		s.t.Fatal(err)
	}
	tables, err := opensm.ReadBack{Timeout: time.Minute, Command: slices.Concat([]string{"env"}, env, s.sim.Prefix(), opensm.DefaultReadBack)}.Tables(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return tables
}
