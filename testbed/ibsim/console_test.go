package ibsim

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// lines hands the data written to it to a reader, write by write.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// TestConsoleGivesUp gives one command up; its late answer must not be taken for
// that of the next.
func TestConsoleGivesUp(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	ok(t, err)
	defer log.Close()
	in := make(lines)
	c := newConsole(in, log)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := c.do(ctx, nil, "Dump")
		failed <- err
	}()
	<-in
	cancel()
	if err := <-failed; err == nil {
		t.Fatal("no error from a command that was given up")
	}
	answer := make(chan string)
	go func() {
		text, _ := c.do(t.Context(), nil, "Attached")
		answer <- text
	}()
	if sent := <-in; sent != "Attached\n#done 2\n" {
		t.Fatalf("sent %q", sent)
	}
	for _, chunk := range []string{"sim> Switch\n", "sim> #done 1sim> Client 0\nCli", "ent 1\nsim> #do", "ne 2sim> "} {
		_, _ = c.Write([]byte(chunk))
	}
	if got, want := <-answer, "Client 0\nClient 1"; got != want {
		t.Errorf("got answer %q, want %q", got, want)
	}
}

// TestUnsimulable offers fabrics that ibsim cannot simulate faithfully.
func TestUnsimulable(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(n *topology.Node)
		reason string
	}{
		{"port GUID", func(n *topology.Node) { n.Ports[1].GUID = 0x77 }, "ibsim makes it 0x0000000000100001"},
		{"quotes", func(n *topology.Node) { n.Name = `a "b"` }, "no quotes"},
		{"long", func(n *topology.Node) { n.Name = strings.Repeat("x", 64) }, "at most 63 bytes"},
		{"kind", func(n *topology.Node) { n.Kind = 9 }, "does not know"},
		{"no port", func(n *topology.Node) { n.Ports = n.Ports[:1] }, "no ports"},
	} {
		f := small()
		c.spoil(&f.Nodes[f.Find(fabgen.HostGUID)])
		_, err := Start(t.Context(), Options{Fabric: f})
		if err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.reason)
		}
	}
}

// TestEnv runs a client with Prefix and Env, as other programs would.
func TestEnv(t *testing.T) {
	s := start(t, small())
	path, err := lookPath("ibnetdiscover")
	ok(t, err)
	env, err := s.Env(fabgen.SpineGUID.String())
	ok(t, err)
	cmd := exec.CommandContext(t.Context(), s.Prefix()[0], path)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), env...)
	out, err := cmd.Output()
	ok(t, err)
	if !strings.Contains(string(out), "# Initiated from node 0000000000300000") {
		t.Errorf("the client was not attached at the spine:\n%s", out)
	}
	if _, err := s.Env("Hca0007"); err == nil {
		t.Error("no error for a host that does not exist")
	}
}

func TestAvailable(t *testing.T) {
	ok(t, Available())
	t.Setenv("PATH", t.TempDir())
	if err := Available(); err == nil || !strings.Contains(err.Error(), "apt-get install ibsim-utils") {
		t.Errorf("without PATH: got error %v", err)
	}
}
