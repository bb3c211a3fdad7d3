package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// TestFallsBack makes forsd fail in every way under one OpenSM. Each time, the sweep ends with
// the last tables that forsd gave, the plugin logs the fault in one line for three sweeps,
// and it returns to forsd's tables afterwards.
func TestFallsBack(t *testing.T) {
	t.Parallel()
	s := simulate(t, fabgen.Spec{Spines: 3, Leaves: 3})
	stop := s.serve()
	s.start(ibsim.OpenSMOptions{LMC: 2, PluginOptions: fmt.Sprintf("socket=%s deadline=200", s.socket)})
	fabric := s.installed()
	good := s.readBack()
	stop()
	lines := 1 // of the plugin's in the log: its first success

	for _, c := range []struct {
		name, says string
		forsd      func() (stop func()) // nil: there is none
		tables     func(context.Context, Request) (*lft.Tables, error)
	}{
		{"absent", "forsd has closed the connection", nil, nil},
		{"deaf", "forsd has closed the connection", s.fake(nil), nil}, // the same kind, said once
		{"garbage for a greeting", "forsd sent", s.fake(func(c net.Conn) { noise(c, rand.NewPCG(1, 1)) }), nil},
		{"garbage", "forsd sent", s.fake(func(c net.Conn) { greet(c, version); noise(c, rand.NewPCG(2, 2)) }), nil},
		{"other version", "another version of the protocol", s.fake(func(c net.Conn) { greet(c, version+1); _, _ = io.Copy(io.Discard, c) }), nil},
		{"mute", "no tables within 200 ms", s.fake(func(c net.Conn) { greet(c, version); _, _ = io.Copy(io.Discard, c) }), nil},
		{"stopped after the greeting", "no tables within 200 ms", s.stopped, nil},
		{"slow", "no tables within 200 ms", s.serve, s.late},
		{"no tables", "forsd has no tables", s.serve, func(context.Context, Request) (*lft.Tables, error) { return nil, errors.New("not today") }},
		{"a switch without table", "has no table", s.serve, spoilt(func(t *lft.Tables, _ Request) { t.Switches = t.Switches[1:] })},
		{"a LID beyond the last", "LIDs of the fabric are", s.serve, spoilt(func(t *lft.Tables, r Request) {
			out := &t.Switches[2].Out
			for len(*out) <= int(r.MaxLID)+1 {
				*out = append(*out, lft.NoPath)
			}
			(*out)[r.MaxLID+1] = 1
		})},
		{"the last LID of all", "LIDs of the fabric are", s.serve, spoilt(func(t *lft.Tables, _ Request) {
			out := slices.Repeat([]uint8{lft.NoPath}, maxTable)
			copy(out, t.Switches[2].Out)
			out[maxTable-1] = 1
			t.Switches[2].Out = out
		})},
		{"LID 0", "LIDs of the fabric are", s.serve, spoilt(func(t *lft.Tables, _ Request) { t.Switches[0].Out[0] = 1 })},
		{"a port without cable", "has no cable", s.serve, spoilt(func(t *lft.Tables, r Request) { t.Switches[0].Out[r.MaxLID] = 30 })},
		{"the last port of all", "has no cable", s.serve, spoilt(func(t *lft.Tables, r Request) { t.Switches[0].Out[r.MaxLID] = 254 })},
		{"a stranger's LID to port 0", "another LID than the switch's", s.serve, spoilt(func(t *lft.Tables, r Request) { t.Switches[0].Out[r.MaxLID] = 0 })},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.forsd != nil {
				s.tables = c.tables
				defer c.forsd()()
				s.connected(c.name)
			}
			from := s.m.LogSize()
			start := time.Now()
			for range 3 {
				if err := s.m.Signal(syscall.SIGHUP); err != nil {
					t.Fatal(err)
				}
				line, end, err := s.m.WaitLog(s.ctx, " tables configured on all switches", from)
				if err == nil && !strings.Contains(line, "fors tables") {
					t.Errorf("the engine used: %s", line)
				}
				if err == nil {
					_, from, err = s.m.WaitLog(s.ctx, ibsim.SubnetUp, end)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("3 sweeps in %v", time.Since(start))
			if err := lft.Compare(good, s.readBack(), lft.LIDs(fabric)); err != nil {
				t.Errorf("the tables held: %v", err)
			}
			said := s.complaints()[lines:]
			if !slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, c.says) }) {
				t.Errorf("the log lacks %q: %q", c.says, said)
			}
			if once := slices.Compact(slices.Sorted(slices.Values(said))); len(once) < len(said) {
				t.Errorf("the log repeats itself: %q", said)
			}
		})
		s.tables = planned
		stop := s.serve()
		s.installed()
		lines = len(s.complaints())
		stop()
	}
}

// complaints is what the plugin has said in OpenSM's log, without the times.
func (s *site) complaints() []string {
	s.t.Helper()
	log, err := s.m.Log()
	if err != nil {
		s.t.Fatal(err)
	}
	var said []string
	for line := range strings.Lines(string(log)) {
		if _, text, ours := strings.Cut(line, "libforsosm: "); ours {
			said = append(said, strings.TrimSpace(text))
		}
	}
	return said
}

// installed sweeps until the fabric that it returns has tables of forsd's. OpenSM is at rest
// then: a sweep is asked for only when the one before, that of OpenSM's start too, has ended.
func (s *site) installed() *topology.Fabric {
	s.t.Helper()
	next[Connected](s)
	s.up()
	for {
		if err := s.m.Signal(syscall.SIGHUP); err != nil {
			s.t.Fatal(err)
		}
		outcome, _ := next[Outcome](s)
		up := s.up()
		if outcome.Result == Installed {
			return up.Fabric
		}
		s.t.Logf("not installed: %+v", outcome)
	}
}

// connected waits until the plugin is served by a Server, in the cases where
// there is one.
func (s *site) connected(_ string) {
	s.t.Helper()
	if s.tables != nil {
		next[Connected](s)
	}
}

// late gives tables once the plugin no longer waits for them.
func (s *site) late(ctx context.Context, r Request) (*lft.Tables, error) {
	for {
		select {
		case o := <-s.outcomes:
			if o.Request == r.Number {
				return planned(ctx, r)
			}
		case <-time.After(patience):
			return nil, errors.New("there was no outcome")
		}
	}
}

// spoilt gives tables with a fault.
func spoilt(spoil func(*lft.Tables, Request)) func(context.Context, Request) (*lft.Tables, error) {
	return func(ctx context.Context, r Request) (*lft.Tables, error) {
		t, err := planned(ctx, r)
		if err == nil {
			spoil(t, r)
		}
		return t, err
	}
}

// fake listens in forsd's place and speaks as told; nil never accepts.
func (s *site) fake(speak func(net.Conn)) func() func() {
	return func() func() {
		l, err := net.Listen("unix", s.socket)
		if err != nil {
			s.t.Fatal(err)
		}
		called := make(chan struct{}, 1000)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for speak != nil {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				called <- struct{}{}
				go speak(c)
			}
		}()
		if speak != nil {
			<-called
		}
		return func() {
			l.Close()
			<-ended
		}
	}
}

// greet reads hello and welcomes the plugin in a version of the protocol.
func greet(c net.Conn, version byte) {
	if _, err := readFrame(c); err != nil {
		return
	}
	body := append([]byte(magic), version, 0, 0, 0)
	_, _ = c.Write(finish(append(newFrame(kindWelcome, time.Now()), body...)))
}

// noise sends random bytes, which are not a message.
func noise(c net.Conn, source rand.Source) {
	r := rand.New(source)
	for {
		b := make([]byte, 1000)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// helper is set in a process of TestHelper's.
const helper = "FORSOSM_TEST_SOCKET"

// TestHelper is forsd's end in a process of its own, which can be stopped.
func TestHelper(t *testing.T) {
	path := os.Getenv(helper)
	if path == "" {
		return
	}
	server, err := Listen(Config{Path: path, Mode: 0o666, Tables: planned, Event: func(e Event) {
		if _, ok := e.(Mastership); ok {
			fmt.Println("connected")
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("listening")
	_ = server.Serve(t.Context())
}

// process starts TestHelper as a user and waits until it says a word.
func (s *site) process(uid uint32, word string) *exec.Cmd {
	s.t.Helper()
	program := os.Args[0]
	if uid != 0 { // who may not look into the directory of this one
		program = filepath.Join(filepath.Dir(s.socket), "helper")
		data, err := os.ReadFile(os.Args[0])
		if err == nil {
			err = os.WriteFile(program, data, 0o755)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "-test.run=^TestHelper$", "-test.v")
	cmd.Env = append(os.Environ(), helper+"="+s.socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
		cmd.Dir = "/"
		if err := os.Chown(filepath.Dir(s.socket), int(uid), int(uid)); err != nil {
			s.t.Fatal(err)
		}
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == word {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return cmd
		}
	}
	s.t.Fatalf("%s ended before it said %q", cmd, word)
	return nil
}

// end kills a process.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// stopped is forsd's end in a process that is stopped once the plugin is there.
func (s *site) stopped() func() {
	cmd := s.process(0, "connected")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		end(cmd)
		os.Remove(s.socket)
	}
}
