package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// load is the work of an endpoint's clients. They run in a process with lower priority
// than forsd, like clients on other machines, and as another user.
type load struct {
	Network, Address, Request string
	Kind                      string // idle, slow or rude
	Clients                   int
}

// asLoad runs the clients in the test's program, if begin has started it, until its input
// ends.
func asLoad() {
	text := os.Getenv("FORSD_TEST_LOAD")
	if text == "" {
		return
	}
	var l load
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		panic(err)
	}
	_ = syscall.Setpriority(syscall.PRIO_PGRP, 0, 19)
	if os.Getuid() == 0 {
		_ = syscall.Setuid(stranger)
	}
	begun := make(chan struct{}, l.Clients)
	for range l.Clients {
		go l.client(begun)
	}
	for range l.Clients {
		<-begun
	}
	fmt.Println("begun")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

const stranger = 65534 // a user

// client sends one request and then idles, sends one and does not read the answer, or
// sends requests again and again and closes every other connection during the answer.
func (l *load) client(begun chan<- struct{}) {
	buf := make([]byte, 16<<10)
	for i := 0; ; i++ {
		c, err := net.Dial(l.Network, l.Address)
		if err == nil {
			if l.Kind == "slow" {
				if r, is := c.(interface{ SetReadBuffer(n int) error }); is {
					_ = r.SetReadBuffer(4096)
				}
			}
			_, err = io.WriteString(c, l.Request)
		}
		if i == 0 {
			begun <- struct{}{}
		}
		switch {
		case err != nil:
			time.Sleep(10 * time.Millisecond)
		case l.Kind == "idle":
			_, _ = io.Copy(io.Discard, c)
		case l.Kind == "slow":
			for range 600 {
				time.Sleep(time.Second)
				if _, err := c.Read(buf[:1]); err != nil {
					break
				}
			}
		case i%2 == 0:
			_, _ = c.Read(buf)
		default:
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			_, _ = io.CopyBuffer(io.Discard, c, buf)
		}
		if c != nil {
			_ = c.Close()
		}
	}
}

// begin starts the clients and returns a function that ends them.
func (l load) begin(t *testing.T) (end func()) {
	t.Helper()
	text, err := json.Marshal(l)
	ok(t, err)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), "FORSD_TEST_LOAD="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err, cmd.Start())
	_, err = io.ReadFull(out, make([]byte, len("begun\n")))
	ok(t, err)
	return func() { _, _ = in.Close(), cmd.Wait() }
}

// loaded is a forsd in its own process, with a manager, whose endpoints are put under
// load.
type loaded struct {
	*besieged
	t      *testing.T
	dir    string
	spec   fabgen.Spec
	whole  *topology.Fabric
	client *api.Client // of root
	viewer string      // a viewer's token
	job    string
	pulled int // cables pulled so far
}

// newLoaded starts forsd on a fabric and waits for its plan.
func newLoaded(t *testing.T, spec fabgen.Spec) *loaded {
	t.Helper()
	whole := fabgen.Generate(spec)
	dir := t.TempDir()
	ok(t, os.Chmod(filepath.Dir(dir), 0o755), writeOpenSM(dir), os.WriteFile(filepath.Join(dir, "guid2lid"), fabgen.GUID2LID(whole), 0o644),
		os.WriteFile(filepath.Join(dir, "fabric.lst"), fabgen.SubnetLst(whole), 0o644))
	manager := exec.CommandContext(t.Context(), "./opensm", openSMFile)
	manager.Dir, manager.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	manager.Cancel = func() error { return syscall.Kill(-manager.Process.Pid, syscall.SIGKILL) }
	says, err := manager.StdoutPipe()
	ok(t, err, manager.Start())
	t.Cleanup(func() { _ = manager.Wait() })
	_, err = io.ReadFull(says, make([]byte, len("trapped\n")))
	ok(t, err, os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(manager.Process.Pid)), 0o644))
	l := &loaded{t: t, dir: dir, whole: whole, spec: spec,
		besieged: besiegeIn(t, dir, fmt.Sprintf(", umad: off, dump_command: [cat, %s/lfts.dump]", dir), ", socket_mode: 0666", "FORSD_TEST_FILES=16384", "FORSD_TEST_PROBE="+filepath.Join(dir, "probe"))}
	l.client, err = api.Dial(l.socket)
	ok(t, err)
	t.Cleanup(l.client.Close)
	l.settled()
	made, err := l.client.CreateToken(t.Context(), api.TokenRequest{Name: "viewer", Role: api.Viewer})
	ok(t, err)
	l.viewer = made.Secret
	job, err := l.client.CreateJob(t.Context(), api.JobRequest{Hosts: names(0, 2)})
	ok(t, err)
	l.job = strconv.FormatUint(job.ID, 10)
	return l
}

// settled waits until all work is done, and returns the epoch in force.
func (l *loaded) settled() uint64 {
	l.t.Helper()
	for range 3000 {
		if s, err := l.client.Status(l.t.Context()); err == nil && s.Ready && s.State == "idle" {
			return s.Epoch
		}
		time.Sleep(20 * time.Millisecond)
	}
	l.t.Fatal("forsd does not settle")
	return 0
}

// figures are measurements of forsd.
type figures struct {
	median, worst time.Duration // of the loop's answers
	request       time.Duration // median of an operator's request that takes a turn of the loop
	plan          time.Duration // median for a pulled cable
	mb            int           // in use
}

// measure sends probes requests for a turn of the loop, and pulls and restores pulls
// cables.
func (l *loaded) measure(probes, pulls int) (f figures) {
	l.t.Helper()
	start := time.Now()
	_, _ = l.answers()
	var took, plans []time.Duration
	for range probes {
		began := time.Now()
		if _, err := l.client.RemoveJob(l.t.Context(), "none"); err == nil || !strings.Contains(err.Error(), "none") {
			l.t.Fatalf("the loop answers %v", err)
		}
		took = append(took, time.Since(began))
		time.Sleep(2 * time.Millisecond)
	}
	for range pulls {
		l.pulled++ // another one each time, because forsd holds back a bouncing cable
		cut := lacking(l.whole, l.spec.Spines, l.pulled%l.spec.Leaves, l.pulled%l.spec.Spines)
		for _, next := range []*topology.Fabric{cut, l.whole} {
			before := l.settled()
			text := fabgen.SubnetLst(next)
			ok(l.t, os.WriteFile(filepath.Join(l.dir, "fabric.lst"), text, 0o644))
			began := time.Now()
			ok(l.t, os.WriteFile(filepath.Join(l.dir, "opensm-subnet.lst"), text, 0o644))
			if l.next(before); next == cut {
				plans = append(plans, time.Since(began))
			}
		}
		l.settled()
	}
	slices.Sort(took)
	slices.Sort(plans)
	f.request, f.plan = took[len(took)/2], plans[len(plans)/2]
	if f.median, f.worst = l.answers(); f.worst == 0 {
		l.t.Fatal("the loop was not asked")
	}
	if os.Getenv("FORS_LONG") != "" {
		time.Sleep(max(0, watchdogEvery+time.Second-time.Since(start))) // garbage is collected periodically
	}
	f.mb = l.resident(l.t)
	return f
}

// answers returns the times of the loop's answers since its last call, 0 without an answer.
func (l *loaded) answers() (median, worst time.Duration) {
	l.t.Helper()
	c, err := net.Dial("unix", filepath.Join(l.dir, "probe"))
	ok(l.t, err)
	_, err = fmt.Fscan(c, &median, &worst)
	ok(l.t, err)
	return median, worst
}

// next waits for another epoch as a rank does.
func (l *loaded) next(than uint64) {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, "http://forsd/v1/plan/phases?format=binary", nil)
	ok(l.t, err)
	r.Header.Set("If-None-Match", fmt.Sprintf("%q", fmt.Sprint(than)))
	r.Header.Set("Prefer", "wait=60")
	a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", l.socket) }}}).Do(r)
	ok(l.t, err, a.Body.Close())
	if a.StatusCode != http.StatusOK {
		l.t.Fatalf("no epoch after %d: %s", than, a.Status)
	}
}

// request returns the load for an endpoint.
func (l *loaded) request(pattern string, role api.Role) load {
	method, path, _ := strings.Cut(pattern, " ")
	path = strings.NewReplacer("{server...}", "0", "{job}", l.job, "{file}", "app.js", "{token}", "none", "{$}", "", "{server}", "0").Replace(path)
	out := load{Network: "tcp", Address: l.tcp}
	body, headers := "", "Host: localhost\r\n"
	if role >= api.Viewer { // clients without the role are refused
		out.Network, out.Address = "unix", l.socket
		headers += "Authorization: Bearer " + l.viewer + "\r\n"
	}
	switch {
	case pattern == "POST /v1/whatif":
		body = `{"fail":["Spine002"]}`
	case method == "POST":
		body = "{}"
	case strings.Contains(path, "/plan") || strings.HasSuffix(path, "/phases"):
		headers += "Prefer: wait=60\r\n"
	}
	if path == "/v1/explain" {
		path += "?src=0&dst=1"
	}
	out.Request = fmt.Sprintf("%s %s HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, headers, len(body), body)
	return out
}

// TestEndpointsUnderLoad attaches many clients to an endpoint: idle, slow and rude ones.
// The loop answers, a pulled cable gets its plan, and the memory stays bounded. With
// FORS_LONG, it covers all endpoints with 1000 clients and fails if a figure is more than
// twice the mean of the quiet ones before and after it; for the longest answer, more than
// twice the longest of all quiet ones.
// docs/reliability.md has the table.
func TestEndpointsUnderLoad(t *testing.T) {
	clients, probes, pulls, spec := 60, 20, 1, fabgen.Spec{Spines: 4, Leaves: 4}
	few := []string{"GET /v1/plan/phases", "GET /v1/events", "POST /v1/whatif", "POST /v1/reroute", "GET /v1/replica"}
	long := os.Getenv("FORS_LONG") != ""
	if long {
		clients, probes, pulls, spec = 1000, 200, 15, fabgen.Spec{Spines: 20, Leaves: 18}
	}
	endpoints := server.Endpoints(interfaces(newDaemon(t).components))
	patterns := few
	if long {
		patterns = slices.Sorted(func(yield func(string) bool) {
			for p := range endpoints {
				if !yield(p) {
					return
				}
			}
		})
	}
	var table bytes.Buffer
	var longest, worst time.Duration // of the loop's answers, without clients and with them
	kinds := []string{"idle", "slow", "rude"}
	fmt.Fprintf(&table, "| Endpoint | none | %[1]d idle | %[1]d slow | %[1]d rude |\n|---|---|---|---|---|\n", clients)
	for _, pattern := range patterns {
		t.Run(strings.NewReplacer("/", ".", "{", "", "}", "").Replace(pattern), func(t *testing.T) {
			l := newLoaded(t, spec)
			var quiet, loaded []figures // alternately, since machines change their pace
			for _, kind := range kinds {
				quiet = append(quiet, l.measure(probes, pulls))
				q := l.request(pattern, endpoints[pattern])
				q.Kind, q.Clients = kind, clients
				end := q.begin(t)
				loaded = append(loaded, l.measure(probes, pulls))
				end()
			}
			quiet = append(quiet, l.measure(probes, pulls))
			fmt.Fprintf(&table, "| `%s` | %v |", pattern, mean(quiet))
			for i, f := range loaded {
				fmt.Fprintf(&table, " %v |", f)
				for _, what := range f.beyond(mean(quiet[i : i+2])) {
					if long {
						t.Errorf("%s: %s the quiet one", kinds[i], what)
					}
				}
				if f.mb > mostMB {
					t.Errorf("%s: forsd has %d MB, want at most %d", kinds[i], f.mb, mostMB)
				}
			}
			fmt.Fprintln(&table)
			longest = max(longest, mean(quiet).worst)
			worst = max(worst, mean(loaded).worst)
		})
	}
	t.Logf("%d clients\n%s", clients, table.String())
	if t.Logf("the loop's longest answer: %v, and %v without clients", worst, longest); long && worst > 2*longest {
		t.Error("the loop's longest answer is more than twice the longest one without clients")
	}
	if name := os.Getenv("FORS_TABLE"); name != "" {
		ok(t, os.WriteFile(name, table.Bytes(), 0o644))
	}
}

// mean returns the mean of figures, with the longest answer in any and the memory of the
// first.
func mean(all []figures) (m figures) {
	n := time.Duration(len(all))
	for _, f := range all {
		m.median, m.request, m.plan = m.median+f.median/n, m.request+f.request/n, m.plan+f.plan/n
		m.worst = max(m.worst, f.worst)
	}
	m.mb = all[0].mb
	return m
}

// beyond lists the figures that are more than twice the quiet ones. The longest answer is
// not among them: how long the longest of some thousand answers takes differs by ten times
// without clients too.
func (f figures) beyond(quiet figures) (more []string) {
	for _, x := range []struct {
		what      string
		is, quiet float64
	}{
		{"the loop's median", f.median.Seconds(), quiet.median.Seconds()},
		{"an order", f.request.Seconds(), max(quiet.request, time.Millisecond).Seconds()},
		{"the plan", f.plan.Seconds(), quiet.plan.Seconds()},
		{"the memory", float64(f.mb), float64(quiet.mb)},
	} {
		if x.is > 2*x.quiet {
			more = append(more, fmt.Sprintf("%s is %.1f times", x.what, x.is/cmp.Or(x.quiet, 1)))
		}
	}
	return more
}

// String formats a cell of the table: the loop's median in µs and its longest answer in
// ms, an operator's request and the plan for a pulled cable in ms, and the memory in MB.
func (f figures) String() string {
	return fmt.Sprintf("%d/%s/%s/%s/%d", f.median.Microseconds(), millis(f.worst), millis(f.request), millis(f.plan), f.mb)
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1e3, 'f', 1, 64)
}
