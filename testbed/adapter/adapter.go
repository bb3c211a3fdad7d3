// Package adapter makes programs exchange data over a simulated fabric, with a verbs library
// that they load in place of the real one, and a process that has the links. Unmodified
// programs run on it: the pingpongs of ibverbs-utils, perftest, UCX, Open MPI over UCX.
//
// What is modelled, and how it was validated, is in docs/testbed.md; the C sources are
// in verbs, the library, and fabric, the process.
package adapter

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/topology"
)

// Rate is the default bandwidth of a link in bytes a second: 20 MB/s stand for
// 200 Gb/s.
const Rate = 20_000_000

// Build builds the library and the process into a directory. It needs a C compiler and
// the header files of libibverbs-dev, and must run within the module. Flags are the
// compiler's; none means -O2 -g.
func Build(ctx context.Context, dir string, flags ...string) error {
	var args []string
	if len(flags) > 0 {
		args = []string{"CFLAGS=" + strings.Join(flags, " ")}
	}
	return built.Make(ctx, "testbed/adapter", dir, args...)
}

// Options describe a fabric that carries data.
type Options struct {
	Programs string           // the directory that Build has filled
	Fabric   *topology.Fabric // its hosts have their LIDs
	Rate     int64            // of a link, in bytes a second; 0 means Rate
	MTU      int              // bytes of data in a packet; 0 means 4096
}

// Fabric is a running fabric. Its methods may be called concurrently.
type Fabric struct {
	options Options
	dir     string
	cmd     *exec.Cmd
	in      io.WriteCloser
	ended   chan struct{}

	writing sync.Mutex // guards in and teller
	teller  *Teller

	mu      sync.Mutex
	rounds  int           // answers to "done"
	more    chan struct{} // closed at the next one
	counted chan []string // lines of an answer to "count" or "flows"
}

// Start starts the process with the fabric as it is; no switch has a table yet.
func Start(o Options) (*Fabric, error) {
	o.Rate, o.MTU = cmp.Or(o.Rate, Rate), cmp.Or(o.MTU, 4096)
	a := &Fabric{options: o, ended: make(chan struct{}), more: make(chan struct{}), counted: make(chan []string, 1)}
	var err error
	if a.dir, err = os.MkdirTemp("", "data"); err != nil { // a short path, as sockets need it
		return nil, err
	}
	a.cmd = exec.Command(filepath.Join(o.Programs, "datafabric"), a.Socket())
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	a.cmd.Stderr = os.Stderr
	in, e1 := a.cmd.StdinPipe()
	out, e2 := a.cmd.StdoutPipe()
	if err = errors.Join(e1, e2); err == nil {
		err = a.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the data fabric: %w", errors.Join(err, os.RemoveAll(a.dir)))
	}
	a.in = in
	go a.listen(out)
	a.teller = NewTeller(in, o.Fabric)
	err = a.tell(func() error {
		_, err := fmt.Fprintf(in, "rate %d\nmtu %d\n", o.Rate, o.MTU)
		return errors.Join(err, a.teller.Describe())
	})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = a.Sync(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// listen reads the output of the process until it ends.
func (a *Fabric) listen(out io.Reader) {
	var lines []string
	for scan := bufio.NewScanner(out); scan.Scan(); {
		switch line := scan.Text(); line {
		case "done":
			a.mu.Lock()
			a.rounds++
			close(a.more)
			a.more = make(chan struct{})
			a.mu.Unlock()
		case "end":
			a.counted <- lines
			lines = nil
		default:
			lines = append(lines, line)
		}
	}
	_ = a.cmd.Wait()
	close(a.ended)
}

var errGone = errors.New("the data fabric has ended")

// tell makes f write to the process.
func (a *Fabric) tell(f func() error) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	if err := f(); err != nil {
		return fmt.Errorf("tell the data fabric: %w", err)
	}
	return nil
}

// Sync waits until the process has handled everything that it was told.
func (a *Fabric) Sync(ctx context.Context) error {
	a.mu.Lock()
	more := a.more
	a.mu.Unlock()
	if err := a.tell(func() error { _, err := io.WriteString(a.in, "done\n"); return err }); err != nil {
		return err
	}
	select {
	case <-more:
		return nil
	case <-a.ended:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SetTables gives the switches tables.
func (a *Fabric) SetTables(t *lft.Tables) error {
	return a.tell(func() error { return a.teller.Tables(t) })
}

// SetLinks gives links the states that they have in f, the same fabric.
func (a *Fabric) SetLinks(f *topology.Fabric) error {
	return a.tell(func() error { return a.teller.Links(f) })
}

// Slow makes packets take longer, by a percentage, on the link that leaves by a port.
func (a *Fabric) Slow(from topology.PortRef, percent int) error {
	return a.tell(func() error {
		_, err := fmt.Fprintf(a.in, "slow %d %d %d\n", from.Node, from.Port, percent)
		return err
	})
}

// Socket is where programs find the fabric.
func (a *Fabric) Socket() string { return filepath.Join(a.dir, "s") }

// Env returns the variables that give a program the adapter of a host, named by
// description or GUID, or those of several with commas between them. %r stands for its
// rank, %4r for that with leading zeros.
func (a *Fabric) Env(host string) []string {
	return []string{"LD_LIBRARY_PATH=" + a.options.Programs, "FORS_FABRIC=" + a.Socket(), "FORS_HOST=" + host}
}

// Close ends the process.
func (a *Fabric) Close() error {
	_ = a.in.Close()
	select {
	case <-a.ended:
	case <-time.After(5 * time.Second):
		_ = a.cmd.Process.Kill()
		<-a.ended
	}
	return os.RemoveAll(a.dir)
}
