package adapter

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
	"github.com/forsd/forsd/testbed/routed"
	"github.com/forsd/forsd/topology"
)

var scratch string

func TestMain(m *testing.M) { programs.Scratch(m, &scratch) }

// library builds the library and the process, once for all tests, with the strictest flags.
var library = sync.OnceValue(func() error {
	if err := programs.Sources("Makefile", "include/*", "fabric/*", "verbs/*", "testdata/*", "../../examples/*.c"); err != nil {
		return err
	}
	return Build(context.Background(), scratch, "-O2", "-g", "-Werror")
})

// needs skips a test if a program that it runs is not installed, and returns the directory
// of the library.
func needs(t testing.TB, names ...string) string {
	t.Helper()
	programs.Needs(t, append(names, "make", "cc")...)
	if err := library(); err != nil {
		t.Fatal(err)
	}
	return scratch
}

// world is a fabric with tables.
type world struct {
	*testing.T
	*Fabric
	fabric *topology.Fabric
	tables *lft.Tables
}

// up brings up a fabric with tables of forsd's own.
func up(t *testing.T, spec fabgen.Spec, rate int64) *world {
	t.Helper()
	return upOf(t, needs(t), spec, rate)
}

// upOf does the same with the programs of a directory.
func upOf(t *testing.T, dir string, spec fabgen.Spec, rate int64) *world {
	t.Helper()
	f := fabgen.Generate(spec)
	tables, err := routed.Tables(f)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Start(Options{Programs: dir, Fabric: f, Rate: rate})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t, a, f, tables}
	w.must(a.SetTables(tables))
	w.must(a.Sync(t.Context()))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// program is a command that runs on a host.
type program struct {
	*exec.Cmd
	out strings.Builder
}

// limit ends programs that hang; nothing here takes a tenth of it by itself.
const limit = 2 * time.Minute

// prepare makes a command to run on a host.
func (w *world) prepare(host string, env []string, command ...string) *program {
	w.Helper()
	ctx, cancel := context.WithTimeoutCause(w.Context(), limit, errors.New("it takes too long"))
	w.Cleanup(cancel)
	p := &program{Cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	p.Stdout, p.Stderr = &p.out, &p.out
	p.Env = append(append(os.Environ(), w.Env(host)...), env...)
	p.WaitDelay = time.Second
	return p
}

// start starts a command on a host.
func (w *world) start(host string, env []string, command ...string) *program {
	w.Helper()
	p := w.prepare(host, env, command...)
	w.must(p.Start())
	return p
}

// wait waits for a successful end.
func (w *world) wait(p *program) string {
	w.Helper()
	if err := p.Wait(); err != nil {
		w.Fatalf("%s: %v\n%s", p.Cmd, err, p.out.String())
	}
	return p.out.String()
}

// between runs a program that is server on one host and client on another and connects by
// itself on a TCP port, and returns the output of both.
func (w *world) between(server, client string, command ...string) (string, string) {
	w.Helper()
	port := strconv.Itoa(18000 + os.Getpid()%2000)
	command = append(command, "-p", port)
	s := w.start(server, nil, command...)
	w.must(Listening(w.Context(), port))
	c := w.start(client, nil, append(command, "localhost")...)
	said := w.wait(c)
	return w.wait(s), said
}

// TestPingpong runs the examples of ibverbs-utils between two hosts of different leaves.
func TestPingpong(t *testing.T) {
	needs(t, "ibv_rc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", "ibv_devinfo")
	w := up(t, small, 0)
	said := w.wait(w.start("Hca0003", nil, "ibv_devinfo"))
	for _, line := range []string{"hca_id:\tsim0", "state:\t\t\tPORT_ACTIVE (4)", "port_lmc:\t\t0x01", "link_layer:\t\tInfiniBand"} {
		if !strings.Contains(said, line) {
			t.Errorf("ibv_devinfo does not say %q:\n%s", line, said)
		}
	}
	for _, command := range [][]string{{"ibv_rc_pingpong", "-c"}, {"ibv_rc_pingpong", "-e", "-m", "4096", "-s", "10000"}, {"ibv_ud_pingpong", "-c"},
		{"ibv_srq_pingpong", "-c", "-e"}} {
		for _, said := range both(w.between("Hca0000", "Hca0003", append(command, "-n", "50")...)) {
			if !strings.Contains(said, "50 iters in") || strings.Contains(said, "invalid") {
				t.Errorf("%v: %s", command, said)
			}
		}
	}
	c, err := w.Count(t.Context())
	w.must(err)
	if c.DeadPort+c.NoEntry+c.Loop+c.WrongLID > 0 {
		t.Errorf("packets were lost: %+v", c)
	}
}

func both(a, b string) []string { return []string{a, b} }

// TestPerftest runs perftest's programs; bandwidths are those of the links.
func TestPerftest(t *testing.T) {
	needs(t, "ib_write_bw", "ib_read_lat", "ib_send_bw", "ib_atomic_lat")
	w := up(t, small, 0)
	bandwidth := regexp.MustCompile(`(?m)^ *65536 +\d+ +[\d.]+ +([\d.]+) `)
	for _, command := range [][]string{{"ib_write_bw", "-n", "100"}, {"ib_send_bw", "-n", "100"}, {"ib_read_bw", "-n", "100"}, {"ib_read_lat", "-n", "100"},
		{"ib_atomic_lat", "-n", "100"}, {"ib_send_lat", "-c", "UD", "-n", "100"}} {
		_, said := w.between("Hca0000", "Hca0003", append(command, "-F", "-d", "sim0")...)
		if !strings.HasSuffix(command[0], "_bw") {
			continue
		}
		m := bandwidth.FindStringSubmatch(said)
		if m == nil {
			t.Fatalf("%v: %s", command, said)
		}
		mib, err := strconv.ParseFloat(m[1], 64)
		w.must(err)
		t.Logf("%s: %.2f MB/s", command[0], mib*1.048576)
		if most := 1.001 * Rate / 1e6; mib*1.048576 > most { // less depends on the machine's load
			t.Errorf("%v: %.2f MB/s over a link of %d MB/s", command, mib*1.048576, Rate/1_000_000)
		}
	}
}
