// Command page drives forsd's page in a browser: it starts a real forsd beside a real OpenSM
// on a simulated fabric, opens a port to forsd's socket as an operator's tunnel would, and
// runs page.test.mjs against it, which may pull cables and end forsd by a port of its own.
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
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
)

func main() {
	forsd := flag.String("forsd", "bin/forsd", "the forsd to show")
	plugin := flag.String("plugin", "bin/libforsosm.so", "the plugin for OpenSM")
	shots := flag.String("shots", "", "directory for screenshots; empty for none")
	spines := flag.Int("spines", 8, "spines of the fabric")
	leaves := flag.Int("leaves", 6, "leaves of the fabric")
	only := flag.String("only", "", "run the tests with this text in their names")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *forsd, *plugin, *shots, *only, fabgen.Spec{Spines: *spines, Leaves: *leaves, LMC: 3})
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "page: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, forsd, plugin, shots, only string, spec fabgen.Spec) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for 1<<spec.LMC < spec.Spines {
		spec.LMC++
	}
	site, err := e2e.New(ctx, e2e.Options{Fabric: fabgen.Generate(spec), LMC: spec.LMC, Forsd: forsd, Plugin: plugin,
		Config: "damping: {flaps: 1000}\nretry: {first: 100ms, max: 1s}\n"})
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
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if shots != "" {
		if shots, err = filepath.Abs(shots); err != nil {
			return err
		}
	}
	args := []string{"--test"}
	if only != "" {
		args = append(args, "--test-name-pattern", only)
	}
	test := exec.CommandContext(ctx, "node", append(args, "page.test.mjs")...)
	test.Dir = filepath.Join(dir, "testbed", "page")
	test.Cancel = func() error { return test.Process.Signal(syscall.SIGTERM) }
	test.WaitDelay = 10 * time.Second
	test.Stdout, test.Stderr = os.Stdout, os.Stderr
	test.Env = append(os.Environ(), "PAGE=http://"+page, "CONTROL=http://"+control, "SHOTS="+shots, "LEAVES="+strconv.Itoa(spec.Leaves), "SPINES="+strconv.Itoa(spec.Spines))
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

// bench does what a test asks for.
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
	case "kill":
		return "killed", b.KillForsd(ctx)
	case "start":
		return "started", b.StartForsd()
	case "rest":
		_, err := b.Settled(ctx, func(*api.Topology) error { return nil })
		return "rests", err
	case "token":
		made, err := b.Client.CreateToken(ctx, api.TokenRequest{Name: "t" + strconv.FormatInt(time.Now().UnixNano(), 36), Role: access.Viewer, ExpiresSeconds: 600})
		if err != nil {
			return nil, err
		}
		return made.Secret, nil
	}
	return nil, fmt.Errorf("%q is nothing that the bench does", what)
}
