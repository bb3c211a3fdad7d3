//go:build umad && cgo

package umad_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// childVariable makes this test program a client that takes orders, and names the file with the
// fabric. The simulation reaches libibumad by a library that is loaded before it, so a client is
// a process that was started with that library.
const childVariable = "FORSD_UMAD_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		if err := serve(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// ports are ports of a node.
type ports struct {
	LID   ib.LID
	Ports []uint8
}

// order is a command to a client, a line of JSON each, and report is its answer.
type (
	order struct {
		Tables   bool    // read all tables
		Ports    ib.LID  // read the ports of this node
		Counters []ports // read these
		Self     bool    // ask the local port
		Traps    bool    // subscribe; reports follow until the end
		Times    int     // how often, 0 for once; Took is of the fastest
	}
	report struct {
		Tables   *lft.Tables
		Ports    []umad.PortInfo
		Counters [][]umad.PortCounters
		Why      []string // [node] why its counters could not be read
		Event    *umad.Event
		Node     ib.GUID
		Err      string
		Took     time.Duration
	}
)

// whole reads a fabric that the manager may be writing.
func whole(path string) (f *topology.Fabric, err error) {
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if f, _, err = topology.Read(data); !errors.Is(err, topology.ErrIncomplete) {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s is not complete after 10 s", path)
}

// serve carries out orders from standard input.
func serve(path string) error {
	f, err := whole(path)
	if err != nil {
		return err
	}
	local, err := umad.LocalPorts()
	if err != nil || len(local) != 1 || !local[0].InfiniBand {
		return fmt.Errorf("local ports %v: %w", local, err)
	}
	r, err := umad.Open(local[0], umad.Options{})
	if err != nil {
		return err
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if in.Decode(&o) != nil {
			return nil
		}
		if o.Traps {
			events, err := r.Subscribe(context.Background(), umad.Subscription{Check: 50 * time.Millisecond, Renew: 200 * time.Millisecond, Retry: 200 * time.Millisecond})
			if err != nil {
				return err
			}
			go func() {
				for e := range events {
					_ = out.Encode(report{Event: &e})
				}
			}()
			continue
		}
		if err := out.Encode(o.carryOut(r, f)); err != nil {
			return err
		}
	}
}

func (o order) carryOut(r *umad.Reader, f *topology.Fabric) (answer report) {
	ctx := context.Background()
	for range max(1, o.Times) {
		var err error
		start := time.Now()
		switch {
		case o.Tables:
			answer.Tables, err = r.Tables(ctx, f)
		case o.Ports != 0:
			answer.Ports, err = r.Ports(ctx, umad.Node{LID: o.Ports})
		case len(o.Counters) > 0:
			answer.Counters, answer.Why, err = count(ctx, r.Port(), o.Counters)
		case o.Self:
			answer.Node, _, _, err = r.Self(ctx)
		}
		if took := time.Since(start); answer.Took == 0 || took < answer.Took {
			answer.Took = took
		}
		if err != nil {
			answer.Err = err.Error()
			return answer
		}
	}
	return answer
}

// count reads counters, and gives the errors of the nodes as texts.
func count(ctx context.Context, p umad.LocalPort, wanted []ports) (got [][]umad.PortCounters, why []string, err error) {
	c, err := umad.OpenCounting(p, umad.Options{Window: 4, PerNode: 1})
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	for _, w := range wanted {
		counters, failed, err := c.Read(ctx, w.LID, w.Ports)
		if err != nil {
			return nil, nil, err
		}
		text := ""
		if failed != nil {
			text = failed.Error()
		}
		got, why = append(got, counters), append(why, text)
	}
	return got, why, nil
}

// client is such a process.
type client struct {
	t   testing.TB
	in  *json.Encoder
	out *json.Decoder
}

// attach starts a client at a host. The fabric is what the file holds.
func attach(t testing.TB, sim *ibsim.Sim, host, fabric string) *client {
	t.Helper()
	env, err := sim.Env(host)
	if err != nil {
		t.Fatal(err)
	}
	return attachBy(t, sim, env, fabric)
}

// attachBy starts a client by the variables that attach it.
func attachBy(t testing.TB, sim *ibsim.Sim, env []string, fabric string) *client {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cmd := exec.CommandContext(ctx, sim.Prefix()[0], self)
	cmd.Dir, cmd.Stderr = t.TempDir(), os.Stderr
	cmd.Env = append(append(os.Environ(), env...), childVariable+"="+fabric)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the client: %v", err)
		}
		cancel(errors.New("the test is over"))
	})
	return &client{t, json.NewEncoder(stdin), json.NewDecoder(stdout)}
}

func (c *client) tell(o order) {
	c.t.Helper()
	if err := c.in.Encode(o); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) hear() (r report) {
	c.t.Helper()
	if err := c.out.Decode(&r); err != nil {
		c.t.Fatalf("the client has ended: %v", err)
	}
	return r
}

func (c *client) do(o order) report {
	c.t.Helper()
	c.tell(o)
	return c.hear()
}
