// Command page drives forsd's page in a browser: it starts a real forsd and a real OpenSM
// on a simulated fabric, opens a port to forsd's socket as an operator's tunnel would, and
// runs a file of tests against it, which may pull cables and end forsd by a port of its own.
// There are four rounds: all that the page does on a small fat tree of two levels, every state
// that a cable can have, the matrices of a tree of three levels, and a large fabric.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// round is a fabric, and the tests on it.
type round struct {
	name   string // that of the file of tests
	fabric *topology.Fabric
	lmc    uint8
	env    []string
	config string // of forsd
}

const (
	steady = "damping: {flaps: 1000}\ncables: {every: 1s, short: 5s}\n"
	strict = "damping: {flaps: 2, hold_down: 10m}\ncables: {mode: isolate, max_cost: 100, per_leaf: 1, every: 500ms, short: 1m, long: 2m, test: 10m, probation: 10m}\n"
)

// states is a round on a tree of which a cable has a quarter of its width.
func states(leaves, spines int) round {
	r := tree("states", leaves, spines)
	at := topology.PortRef{Node: r.fabric.Find(fabgen.LeafGUID), Port: uint8(2 * spines)}
	far, rate := r.fabric.At(at), r.fabric.At(at).Rate
	rate.Width = 1
	r.fabric.Connect(at, topology.PortRef{Node: far.Peer, Port: far.PeerPort}, rate)
	r.config = strict
	return r
}

// tree is a round on a fat tree of two levels, with an LMC for all lanes or, if these need
// too many LIDs, the largest.
func tree(name string, leaves, spines int) round {
	spec := fabgen.Spec{Spines: spines, Leaves: leaves}
	for 1<<spec.LMC < spines && leaves*spines<<(spec.LMC+1) < 0xb000 { // LIDs of unicast end at 0xbfff
		spec.LMC++
	}
	return round{name, fabgen.Generate(spec), spec.LMC, []string{"LEAVES=" + strconv.Itoa(leaves), "SPINES=" + strconv.Itoa(spines)}, steady}
}

// options are the flags of the command line.
type options struct {
	forsd, plugin, shots, looks, only string
	stay                              bool
}

func main() {
	var o options
	flag.StringVar(&o.forsd, "forsd", "bin/forsd", "the forsd to show")
	flag.StringVar(&o.plugin, "plugin", "bin/libforsosm.so", "the plugin for OpenSM")
	flag.StringVar(&o.shots, "shots", "", "directory for the documents' pictures, or empty")
	flag.StringVar(&o.looks, "looks", "", "directory for pictures of every view in every look, or empty")
	flag.StringVar(&o.only, "only", "", "run the tests with this text in their names")
	flag.BoolVar(&o.stay, "stay", false, "run no tests: print where the page is, and keep the fabric until an interrupt")
	name := flag.String("round", "", "run this round alone: page, states, pods or large")
	more := flag.Bool("large", false, "try a fabric of 32 leaves by 32 spines too")
	flag.Parse()
	rounds := []round{tree("page", 6, 8), states(8, 8),
		{"pods", fabgen.GenerateTree(fabgen.TreeSpec{Pods: 4, Leaves: 3, Mids: 2, Tops: 2, Hosts: 4}), 1, nil, steady},
		tree("large", 64, 32)}
	if *more {
		rounds = append(rounds, tree("large", 32, 32))
	}
	command.Main("page", func(ctx context.Context) (err error) {
		for i := range rounds {
			if *name == "" || *name == rounds[i].name {
				err = errors.Join(err, o.run(ctx, &rounds[i]))
			}
		}
		return err
	})
}

// run tries a round.
func (o *options) run(ctx context.Context, r *round) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	site, err := e2e.New(ctx, e2e.Options{Fabric: r.fabric, LMC: r.lmc, Forsd: o.forsd, Plugin: o.plugin,
		Conf:   map[string]string{"honor_guid2lid_file": "TRUE"},
		Config: "fabric: plane-3\nretry: {first: 100ms, max: 1s}\n" + r.config})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	if err := site.Start(ctx); err != nil {
		return err
	}
	if _, err := site.Settled(ctx, func(*api.Topology) error { return nil }); err != nil {
		return err
	}
	page, err := tunnel(ctx, site.Socket())
	if err != nil {
		return err
	}
	control, err := serve(ctx, &bench{site})
	if err != nil {
		return err
	}
	if o.stay {
		fmt.Printf("the page is at http://%s/; http://%s/?do=pull&node=Leaf002&port=12 pulls a cable, plug puts it back\n", page, control)
		<-ctx.Done()
		return nil
	}
	for _, dir := range []*string{&o.shots, &o.looks} {
		if *dir == "" {
			continue
		}
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
	}
	args := []string{"--test", "--test-reporter", "spec"}
	if o.only != "" {
		args = append(args, "--test-name-pattern", o.only)
	}
	test := exec.CommandContext(ctx, "node", append(args, r.name+".test.mjs")...)
	test.Dir = filepath.Join("testbed", "page")
	test.Cancel = func() error { return test.Process.Signal(syscall.SIGTERM) }
	test.WaitDelay = 10 * time.Second
	test.Stdout, test.Stderr = os.Stdout, os.Stderr
	test.Env = append(append(os.Environ(), "PAGE=http://"+page, "CONTROL=http://"+control, "SHOTS="+o.shots, "LOOKS="+o.looks), r.env...)
	return test.Run()
}

// tunnel opens a port to a Unix socket, as ssh -L does.
func tunnel(ctx context.Context, socket string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go join(c, socket)
		}
	}()
	return l.Addr().String(), nil
}

// join carries bytes both ways until one side ends.
func join(c net.Conn, socket string) {
	defer c.Close()
	s, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer s.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{c, s}, {s, c}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			done <- struct{}{}
		}()
	}
	<-done
}

// bench carries out the requests of a test.
type bench struct{ *e2e.Site }

// serve opens the port of the bench.
func serve(ctx context.Context, b *bench) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := b.do(r.Context(), r.FormValue("do"), r.FormValue("node"), r.FormValue("port"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(out) // the test has gone if this fails
	})}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	go func() { _ = s.Serve(l) }()
	return l.Addr().String(), nil
}

func (b *bench) do(ctx context.Context, what, node, port string) (any, error) {
	n, _ := strconv.Atoi(port) // those without one take none
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	switch what {
	case "pull":
		return time.Now().UnixMilli(), b.Sim.Unlink(ctx, node, n)
	case "plug":
		return time.Now().UnixMilli(), b.Sim.Relink(ctx, node, n)
	case "count":
		return "counted", b.Sim.SetCounter(ctx, node, n, "PortCounters.SymbolErrorCounter", 40)
	case "kill":
		return "killed", b.KillForsd(ctx)
	case "start":
		return "started", b.StartForsd()
	case "rest":
		_, err := b.Settled(ctx, func(*api.Topology) error { return nil })
		return "rests", err
	case "token":
		made, err := b.Client.CreateToken(ctx, api.TokenRequest{Name: "t" + strconv.FormatInt(time.Now().UnixNano(), 36), Role: api.Viewer, ExpiresSeconds: 600})
		if err != nil {
			return nil, err
		}
		return made.Secret, nil
	}
	return nil, fmt.Errorf("%q is nothing that the bench does", what)
}
