// Package ibsim brings up a simulated InfiniBand fabric under a real OpenSM, for
// tests and the demonstration: the fabric simulator ibsim with its console, any
// number of subnet managers, and diagnostic tools as further clients. It starts
// programs and hands over files; it does not read their output about the fabric.
//
// No simulation meets another one on the same machine, and none outlives the
// process that started it, however that ends. At most ten clients attach to one
// simulation at a time, subnet managers included.
package ibsim

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// stopLimit is how long a program is given to follow a request to end.
const stopLimit = 5 * time.Second

// Options describe the simulation.
type Options struct {
	// Fabric is the fabric; see WriteNetlist for its limits.
	Fabric *topology.Fabric
	// Dir receives the files: fabric.net, ibsim.out, ibsim.err, a directory for
	// each subnet manager, and the FIFO console, into which people can write
	// commands as well. It is created if necessary, and stays. Empty means a
	// temporary directory that disappears with the simulation.
	Dir string
}

// Sim is a running simulation. Its methods may be called concurrently.
type Sim struct {
	dir     string
	socket  string
	ids     map[string]string // description or GUID → identifier in the netlist
	files   []*os.File
	janitor *janitor
	ibsim   *process
	console *console

	closing sync.Once
	mu      sync.Mutex
	clients map[*process]bool
	relays  map[*relay]bool
	blocks  atomic.Int64
	closed  bool
	opensms int
}

// Blocks is how many blocks of forwarding tables relayed clients have sent: managers with Rival.
func (s *Sim) Blocks() int { return int(s.blocks.Load()) }

// Start writes the netlist, starts ibsim, and returns when clients can attach.
// ctx bounds the start; the simulation lasts until Close.
func Start(ctx context.Context, o Options) (*Sim, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	s := &Sim{ids: nodeNames(o.Fabric), clients: make(map[*process]bool), relays: make(map[*relay]bool)}
	err := s.makeDir(o.Dir)
	if err == nil {
		err = s.launch(ctx, o.Fabric)
	}
	if err != nil {
		return nil, fmt.Errorf("start ibsim: %w", errors.Join(err, s.Close()))
	}
	return s, nil
}

// nodeNames maps the names that a caller may use for a node to its identifier: every
// GUID, and every description that only one node has.
func nodeNames(f *topology.Fabric) map[string]string {
	ids := nodeIDs(f)
	names := make(map[string]string, 2*len(ids))
	owners := make(map[string]int, len(ids))
	for i, id := range ids {
		names[f.Nodes[i].Name] = id
		owners[f.Nodes[i].Name]++
	}
	for name, n := range owners {
		if n > 1 || name == "" {
			delete(names, name)
		}
	}
	for i, id := range ids {
		names[f.Nodes[i].GUID.String()] = id
	}
	return names
}

// nodeID returns the identifier of the node with this description or GUID.
func (s *Sim) nodeID(node string) (string, error) {
	id, ok := s.ids[node]
	if !ok {
		return "", fmt.Errorf("the simulated fabric has no node %q, or several: name it by its GUID, 0x and 16 digits", node)
	}
	return id, nil
}

// makeDir prepares the directory, a temporary one with a janitor if dir is
// empty.
func (s *Sim) makeDir(dir string) (err error) {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		s.dir, err = filepath.Abs(dir)
		return err
	}
	if s.dir, err = os.MkdirTemp("", "ibsim-"); err != nil {
		return err
	}
	s.janitor, err = startJanitor(s.dir)
	return err
}

// launch writes the netlist and starts ibsim on it.
func (s *Sim) launch(ctx context.Context, f *topology.Fabric) error {
	netlist, err := s.create("fabric.net")
	if err != nil {
		return err
	}
	if err := WriteNetlist(netlist, f); err != nil {
		return err
	}
	stdin, input, err := s.openConsole()
	if err != nil {
		return err
	}
	stdout, err := s.create("ibsim.out")
	if err != nil {
		return err
	}
	stderr, err := s.create("ibsim.err")
	if err != nil {
		return err
	}
	path, err := lookPath("ibsim")
	if err != nil {
		return err
	}
	s.socket = socketName()
	s.console = newConsole(input, stdout)
	cmd := exec.Command(path, append(capacity(f), netlist.Name())...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "IBSIM_SOCKNAME="+s.socket)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, s.console, stderr
	if s.ibsim, err = startProcess(cmd); err != nil {
		return err
	}
	if _, err := s.Command(ctx, "Attached"); err != nil {
		said, _ := os.ReadFile(stderr.Name())
		return errors.Join(err, complaint(said))
	}
	return nil
}

// create opens a new file in the directory, which Close closes.
func (s *Sim) create(name string) (*os.File, error) {
	f, err := os.Create(filepath.Join(s.dir, name))
	if err == nil {
		s.files = append(s.files, f)
	}
	return f, err
}

// openConsole makes the FIFO that feeds ibsim and opens both its ends. ibsim's
// end is open for writing as well: it would spin at an end of file.
func (s *Sim) openConsole() (out, in *os.File, err error) {
	path := filepath.Join(s.dir, "console")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, nil, fmt.Errorf("make FIFO %s: %w", path, err)
	}
	if out, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	s.files = append(s.files, out)
	if in, err = os.OpenFile(path, os.O_WRONLY, 0); err != nil {
		return nil, nil, err
	}
	s.files = append(s.files, in)
	return out, in, nil
}

// capacity returns the options that give ibsim room for f and all unicast LIDs.
func capacity(f *topology.Fabric) []string {
	var switches, ports int
	for i := range f.Nodes {
		ports += len(f.Nodes[i].Ports)
		if f.Nodes[i].Kind == topology.Switch {
			switches++
		}
	}
	return []string{"-s", "-N", strconv.Itoa(len(f.Nodes) + 1), "-S", strconv.Itoa(switches + 1),
		"-P", strconv.Itoa(ports + 1), "-L", strconv.Itoa(int(ib.MaxUnicastLID) + 1)}
}

// socketName returns a unique name for ibsim's sockets. They are in the abstract
// name space: containers that share a network see them, too.
func socketName() string {
	return "forsd-" + strconv.Itoa(os.Getpid()) + "-" + rand.Text()[:10]
}

// start starts a client, which Close kills.
func (s *Sim) start(cmd *exec.Cmd) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, errGone)
	}
	p, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	s.clients[p] = true
	go func() {
		<-p.done
		s.mu.Lock()
		delete(s.clients, p)
		s.mu.Unlock()
	}()
	return p, nil
}

// Close kills every client and ibsim, and removes the temporary directory. More
// calls do nothing.
func (s *Sim) Close() (err error) {
	s.closing.Do(func() { err = s.close() })
	return err
}

func (s *Sim) close() error {
	s.mu.Lock()
	s.closed = true
	clients := make([]*process, 0, len(s.clients))
	for p := range s.clients {
		clients = append(clients, p)
	}
	s.mu.Unlock()
	for _, p := range clients {
		p.kill()
	}
	if s.ibsim != nil {
		s.ibsim.kill()
	}
	for _, f := range s.files {
		f.Close()
	}
	if s.janitor == nil {
		return nil
	}
	if err := s.janitor.release(); err != nil {
		return fmt.Errorf("remove %s: %w", s.dir, err)
	}
	return nil
}

// Dir is the directory of the simulation's files.
func (s *Sim) Dir() string { return s.dir }

// Socket is the simulation's IBSIM_SOCKNAME.
func (s *Sim) Socket() string { return s.socket }

// Prefix goes before a command line to run it as a client; its environment must hold
// the variables of Env. The program must make its InfiniBand calls through libibumad,
// and should have a working directory of its own: the client library keeps files
// there.
func (s *Sim) Prefix() []string { return []string{"ibsim-run"} }

// Env returns the variables that attach a client at host, a node named by
// description or GUID, to be appended to os.Environ().
func (s *Sim) Env(host string) ([]string, error) {
	id, err := s.nodeID(host)
	if err != nil {
		return nil, err
	}
	return []string{"IBSIM_SOCKNAME=" + s.socket, "SIM_HOST=" + id, "LD_PRELOAD="}, nil
}

// EnvOpen is Env for one client that also gets unsolicited MADs, such as the Reports
// that it has subscribed to; ibsim hands them to managers alone. It costs every MAD a
// detour. Programs that the client starts must be given Env. The client is cut off
// when end is called.
func (s *Sim) EnvOpen(host string) (env []string, end func(), err error) {
	return s.relayed(host, true, false)
}

// EnvBeside is EnvOpen for a client on the host of a manager, which is a Rival.
func (s *Sim) EnvBeside(host string) (env []string, end func(), err error) {
	return s.relayed(host, false, true)
}

func (s *Sim) relayed(host string, open, beside bool) (env []string, end func(), err error) {
	if env, err = s.Env(host); err != nil {
		return nil, nil, err
	}
	r, err := s.newRelay(host, open, beside)
	if err != nil {
		return nil, nil, err
	}
	return append(env, "IBSIM_SOCKNAME="+r.name), r.close, nil
}
