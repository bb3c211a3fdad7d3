package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/plans"
	"github.com/forsd/forsd/testbed/fabgen"
)

// besieged is a forsd without a subnet manager, in its own process with few file
// descriptors.
type besieged struct {
	pid         int
	socket, tcp string
}

// asForsd runs forsd in the test's program if besiege has started it.
func asForsd() {
	path := os.Getenv("FORSD_TEST_CONFIG")
	if path == "" {
		return
	}
	few := syscall.Rlimit{Cur: 256, Max: 256}
	if files := os.Getenv("FORSD_TEST_FILES"); files != "" {
		if _, err := fmt.Sscan(files, &few.Cur); err != nil {
			panic(err)
		}
		few.Max = few.Cur
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		panic(err)
	}
	if os.Getenv("FORSD_TEST_UNREAD") != "" {
		os.Stderr = unread()
	}
	if probe := os.Getenv("FORSD_TEST_PROBE"); probe != "" {
		os.Exit(probed(path, probe))
	}
	os.Exit(Main([]string{"-config", path}, "test"))
}

// probed is Main for a forsd whose loop is called every two milliseconds. A connection to
// the socket returns the median and the longest time of the calls since the last
// connection, 0 without a call.
func probed(path, socket string) int {
	plans.SetUp()
	cfg, _, err := loadConfig(path)
	if err != nil {
		panic(err)
	}
	d, err := New(cfg, "test", newLogger(cfg.Log, zap.NewAtomicLevel()), tellSystemd)
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	asks, err := net.Listen("unix", socket)
	if err != nil {
		panic(err)
	}
	asked := make(chan net.Conn)
	go func() {
		for c, err := asks.Accept(); err == nil; c, err = asks.Accept() {
			asked <- c
		}
	}()
	go func() {
		var took []time.Duration
		for {
			select {
			case <-time.After(2 * time.Millisecond):
				began := time.Now()
				if d.inbox.call(ctx, func(context.Context, *loop) {}) == nil {
					took = append(took, time.Since(began))
				}
			case c := <-asked:
				if len(took) == 0 {
					took = append(took, 0) // there was no call
				}
				slices.Sort(took)
				fmt.Fprintln(c, took[len(took)/2].Nanoseconds(), took[len(took)-1].Nanoseconds())
				took = nil
				_ = c.Close()
			}
		}
	}()
	if err := d.Run(ctx); err != nil {
		panic(err)
	}
	return 0
}

// besiege starts forsd with the dump of a fat tree and an extended environment, and waits
// until it answers.
func besiege(t *testing.T, spines, leaves int, env ...string) *besieged {
	t.Helper()
	dir, f := t.TempDir(), fabric(spines, leaves)
	ok(t, os.WriteFile(filepath.Join(dir, "guid2lid"), fabgen.GUID2LID(f), 0o644), os.WriteFile(filepath.Join(dir, "opensm-subnet.lst"), fabgen.SubnetLst(f), 0o644))
	return besiegeIn(t, dir, "", "", env...)
}

// besiegeIn is besiege in a folder, with further settings of OpenSM and of the API.
func besiegeIn(t *testing.T, dir, manager, more string, env ...string) *besieged {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	b := &besieged{socket: filepath.Join(dir, "s"), tcp: free.Addr().String()}
	ok(t, free.Close(), os.WriteFile(filepath.Join(dir, "forsd.yaml"), fmt.Appendf(nil, `version: 1
state_dir: %[1]s/state
opensm:
  {dump_dir: %[1]s, cache_dir: %[1]s, lfts_file: %[1]s/lfts.dump, root_guid_file: %[1]s/root, pid_file: %[1]s/pid, plugin: {socket: %[1]s/p}%[3]s}
api: {socket: %[1]s/s, listen: "%[2]s"%[4]s}
`, dir, b.tcp, manager, more), 0o644))
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), "FORSD_TEST_CONFIG="+filepath.Join(dir, "forsd.yaml"), "NOTIFY_SOCKET=")
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	ok(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	b.pid = cmd.Process.Pid
	for range 1000 {
		if status, _ := b.ask(http.MethodGet, "/v1/topology", ""); status == http.StatusOK {
			return b
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("forsd does not answer")
	return nil
}

// ask sends a request over the Unix socket, on a new connection.
func (b *besieged) ask(method, path, body string) (int, string) {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", b.socket) }}}
	q, err := http.NewRequest(method, "http://forsd"+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := client.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer a.Body.Close()
	text, _ := io.ReadAll(a.Body)
	return a.StatusCode, string(text)
}

// begin opens a connection, sends the text and leaves the connection open.
func (b *besieged) begin(t *testing.T, network, address, text string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, address)
	ok(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, _ = io.WriteString(c, text) // forsd may refuse it before it is complete
	return c
}

// resident returns forsd's memory in MB, and peak the largest amount so far.
func (b *besieged) resident(t *testing.T) int { return b.memory(t, "VmRSS:") }

func (b *besieged) peak(t *testing.T) int { return b.memory(t, "VmHWM:") }

func (b *besieged) memory(t *testing.T, which string) (mb int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.pid))
	ok(t, err)
	_, rest, _ := strings.Cut(string(status), which)
	_, err = fmt.Sscan(rest, &mb)
	ok(t, err)
	return mb / 1024
}

// mostMB limits forsd's peak: the memory for bodies, several times as much for the
// collector, and forsd itself.
const mostMB = 200

var unreadEnd *os.File // of unread's pipe; it stays open

// unread returns the end of a pipe that is full.
func unread() (w *os.File) {
	var err error
	if unreadEnd, w, err = os.Pipe(); err != nil {
		panic(err)
	}
	for page := make([]byte, 4096); err == nil; {
		err = w.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		if err == nil {
			_, err = w.Write(page)
		}
	}
	if err := w.SetWriteDeadline(time.Time{}); err != nil {
		panic(err)
	}
	return w
}

// TestUnreadLog does not read forsd's log, as if journald had stopped. forsd starts,
// plans a fabric, and warns that there is no OpenSM.
func TestUnreadLog(t *testing.T) {
	b := besiege(t, 4, 4, "FORSD_TEST_UNREAD=1")
	for range 500 {
		if _, answer := b.ask(http.MethodGet, "/v1/status", ""); strings.Contains(answer, "signal-failed") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("forsd waits for its log's reader")
}

// TestHostileBodies sends large bodies, and announces large bodies that never arrive.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	b := besiege(t, 4, 4)
	junk := "[" + strings.Repeat(" ", 15<<20) + "]"
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			if status, answer := b.ask(http.MethodPost, "/v1/gpu/lanes", junk); status != http.StatusBadRequest && status != http.StatusServiceUnavailable && status != 0 {
				t.Errorf("15 MB of nothing: %d %.200s", status, answer)
			}
		})
	}
	clients.Wait()
	for range 50 {
		b.begin(t, "unix", b.socket, "POST /v1/gpu/lanes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 15728640\r\n\r\n"+strings.Repeat(" ", 256<<10))
	}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodGet, "/v1/status", "", http.StatusOK},
		{http.MethodPost, "/v1/whatif", `{"fail":["Spine001"]}`, http.StatusOK},
	} {
		if status, answer := b.ask(c.method, c.path, c.body); status != c.status {
			t.Errorf("%s beside bodies that do not come: %d %.200s, want %d", c.path, status, answer, c.status)
		}
	}
	mb := b.peak(t)
	t.Logf("forsd has had %d MB", mb)
	if mb > mostMB {
		t.Errorf("forsd has had %d MB, want at most %d", mb, mostMB)
	}
}

// TestHostileConnections opens more connections than there are descriptors. They wait for
// a plan that never comes.
func TestHostileConnections(t *testing.T) {
	t.Parallel()
	b := besiege(t, 4, 4)
	held, told := 0, 0
	for range 400 {
		c := b.begin(t, "tcp", b.tcp, "GET /v1/plan HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=300\r\n\r\n")
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if line, _ := bufio.NewReader(c).ReadString('\n'); strings.HasPrefix(line, "HTTP/1.1 503") {
			told++
		} else if line == "" {
			held++
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.pid))
	ok(t, err)
	if len(files) > 256-64 {
		t.Errorf("forsd has %d of 256 descriptors in use: want 64 for its own work", len(files))
	}
	if told == 0 || held == 0 {
		t.Errorf("%d connections wait, %d are told that there are too many", held, told)
	}
	if status, answer := b.ask(http.MethodGet, "/v1/status", ""); status != http.StatusOK {
		t.Errorf("on the Unix socket: %d %.200s", status, answer)
	}
	if status, answer := b.ask(http.MethodPost, "/v1/whatif", `{"fail":["Spine001"]}`); status != http.StatusOK {
		t.Errorf("a plan in a process of its own: %d %.200s", status, answer)
	}
}

// TestHostilePlans requests more plans than there are processes.
func TestHostilePlans(t *testing.T) {
	b := besiege(t, 32, 32)
	const body = `{"fail":["Spine001"]}` // takes some time on a fabric with so many hosts
	var clients []net.Conn
	for range 26 { // of at most 32 connections
		c, err := net.Dial("unix", b.socket)
		ok(t, err)
		_, err = fmt.Fprintf(c, "POST /v1/whatif HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		ok(t, err)
		clients = append(clients, c)
	}
	for range 100 {
		if n := workersOf(b.pid); n > 2 {
			t.Errorf("%d processes plan at a time", n)
		}
		if status, answer := b.ask(http.MethodGet, "/v1/status", ""); status != http.StatusOK {
			t.Errorf("%d %.200s", status, answer)
		}
	}
	answers := make(chan string, len(clients))
	for _, c := range clients {
		go func() {
			line, _ := bufio.NewReader(c).ReadString('\n')
			answers <- line
		}()
	}
	planned, told := false, false
	for due := time.Now().Add(time.Minute); !(planned && told) && time.Now().Before(due); {
		planned = planned || workersOf(b.pid) > 0
		select {
		case line := <-answers:
			told = told || strings.HasPrefix(line, "HTTP/1.1 503")
		case <-time.After(time.Millisecond):
		}
	}
	if !planned {
		t.Error("nothing is planned")
	}
	if !told {
		t.Error("26 plans are taken on at a time, and none is refused")
	}
	for _, c := range clients {
		_ = c.Close()
	}
	for range 1000 {
		if workersOf(b.pid) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("processes go on for clients that have left")
}

// workersOf returns the number of processes that a process has started.
func workersOf(pid int) (n int) {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		n += len(strings.Fields(string(list)))
	}
	return n
}
