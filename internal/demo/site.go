package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"forsd/api"
	"forsd/internal/fabgen"
	"forsd/internal/ibsim"
	"forsd/lft"
	"forsd/topology"
)

// The hosts at which OpenSM and the diagnostic tools are attached.
const (
	managerHost = "Hca0100"
	toolHost    = "Hca0000"
)

// site is the simulated fabric with its subnet manager and forsd.
type site struct {
	fabric *topology.Fabric
	base   *topology.Baseline
	dir    string
	sim    *ibsim.Sim
	opensm *ibsim.OpenSM
	tcp    string
	client *api.Client
	forsd  *exec.Cmd
	ended  chan error // receives how forsd ended
}

// open starts the simulated fabric, without a manager.
func open(ctx context.Context, spec fabgen.Spec) (*site, error) {
	s := &site{fabric: fabgen.Generate(spec)}
	var err error
	if s.base, err = topology.NewBaseline(s.fabric); err != nil {
		return nil, err
	}
	if s.sim, err = ibsim.Start(ctx, ibsim.Options{Fabric: s.fabric}); err != nil {
		return nil, err
	}
	s.dir = s.sim.Dir()
	return s, nil
}

// close ends everything that runs.
func (s *site) close() error {
	if s.forsd != nil {
		_ = s.forsd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.ended:
		case <-time.After(10 * time.Second):
			_ = s.forsd.Process.Kill()
		}
	}
	return s.sim.Close()
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }
func (s *site) socket() string          { return s.path("forsd.sock") }

// manage starts an OpenSM with the routing engine and waits for its first sweep.
func (s *site) manage(ctx context.Context, engine string) error {
	var err error
	s.opensm, err = s.sim.StartOpenSM(ctx, ibsim.OpenSMOptions{Host: managerHost, LMC: lhcb.LMC, RoutingEngine: engine,
		LFTsFile: s.path("lfts.dump"), Dir: s.path("opensm-" + strings.ReplaceAll(engine, ",", "-")),
		Conf: map[string]string{"honor_guid2lid_file": "TRUE"}})
	if err != nil {
		return err
	}
	_, _, err = s.opensm.WaitLog(ctx, ibsim.SubnetUp, 0)
	return err
}

// start starts forsd, then OpenSM, and waits for the first verified epoch. The
// table file does not exist: forsd installs an empty one.
func (s *site) start(ctx context.Context, binary string) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.tcp = free.Addr().String()
	if err := free.Close(); err != nil {
		return err
	}
	if _, err := os.Stat(s.path("lfts.dump")); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("a table file exists already: %v", err)
	}
	env, err := s.sim.Env(toolHost)
	if err != nil {
		return err
	}
	opensm := s.path("opensm-file-no_fallback")
	config := fmt.Sprintf("version: 1\nstate_dir: %s\nopensm:\n  dump_dir: %s\n  cache_dir: %s\n  conf: %s\n  lfts_file: %s\n  pid_file: %s\n  dump_command: [%s]\napi:\n  socket: %s\n  listen: %s\n",
		s.path("state"), opensm, opensm, filepath.Join(opensm, "opensm.conf"), s.path("lfts.dump"), filepath.Join(opensm, "opensm.pid"),
		strings.Join(append(append([]string{"env"}, env...), append(s.sim.Prefix(), "dump_fts", "-n")...), ", "), s.socket(), s.tcp)
	if err := os.WriteFile(s.path("forsd.yaml"), []byte(config), 0o644); err != nil {
		return err
	}
	log, err := os.Create(s.path("forsd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.forsd = exec.Command(binary, "--config", s.path("forsd.yaml"))
	s.forsd.Stderr = log
	s.forsd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := s.forsd.Start(); err != nil {
		return fmt.Errorf("start forsd: %w (make build builds it)", err)
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.forsd.Wait() }()
	if s.client, err = api.Dial(s.socket()); err != nil {
		return err
	}
	if err := s.manage(ctx, "file,no_fallback"); err != nil {
		return err
	}
	_, err = s.await(ctx, func(st *api.Status) bool { return st.Ready && st.State == "idle" })
	return err
}

// await asks forsd for its status until it is as wanted.
func (s *site) await(ctx context.Context, done func(*api.Status) bool) (*api.Status, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		st, err := s.client.Status(ctx)
		if err == nil && done(st) {
			return st, nil
		}
		select {
		case err := <-s.ended:
			log, _ := os.ReadFile(s.path("forsd.log"))
			return nil, fmt.Errorf("forsd has ended: %v\n%s", err, log)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// tree is the fabric as OpenSM sees it, against the baseline.
func (s *site) tree() (*topology.FatTree, error) {
	data, err := os.ReadFile(filepath.Join(s.opensm.Dir(), "opensm-subnet.lst"))
	if err != nil {
		return nil, err
	}
	f, err := topology.ReadSubnetLst(data)
	if err != nil {
		return nil, err
	}
	if err := f.SetLMC(lhcb.LMC); err != nil {
		return nil, err
	}
	return topology.Fit(f, s.base, nil)
}

// readBack reads the tables out of the switches.
func (s *site) readBack(ctx context.Context) (*lft.Tables, error) {
	out, err := s.sim.Run(ctx, toolHost, "dump_fts", "-n")
	if err != nil {
		return nil, err
	}
	return lft.ReadBytes(out)
}
