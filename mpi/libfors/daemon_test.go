package libfors

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/phasetable"
)

// publish makes the table of four leaves the plan in force.
func publish(t testing.TB, plans *published.Plans, epoch uint64) *phasetable.View {
	t.Helper()
	table := plan(t, 4, 3, 0, 2)
	table.Epoch = epoch
	_, view := encode(t, table)
	p, err := published.NewPlan(view, json.RawMessage(`{"version":1}`), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	plans.Publish(p)
	return view
}

// serve runs forsd's own server at a socket and at a TCP address. stop ends it.
func serve(t testing.TB, plans *published.Plans, socket, tcp string) (s *server.Server, stop func()) {
	t.Helper()
	c := server.Config{Backend: forecaster{plans: plans}, Plans: plans, ReadOverTCP: true}
	s, err := server.Listen(c, server.Listeners{Socket: socket, Mode: 0o600, TCP: tcp})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		done <- nil
	}
	t.Cleanup(stop)
	return s, stop
}

// forecaster answers only requests for the rest of an exchange: the phases that are
// not done, whatever fails.
type forecaster struct {
	server.Backend
	plans *published.Plans
}

// WhatIf removes the phases that are done from the plan in force.
func (f forecaster) WhatIf(_ context.Context, q api.WhatIf) (*api.Forecast, error) {
	if current := f.plans.Current().Epoch; q.Epoch != current || q.Done == nil {
		return nil, api.Refused("epoch %d is not in force", q.Epoch)
	}
	t := f.plans.Current().Table.Table()
	done := q.Done.Of(t.Phases)
	rows := done * len(t.Servers)
	t.Phases, t.To, t.Lane, t.DLID = t.Phases-done, t.To[rows:], t.Lane[rows:], t.DLID[rows:]
	rest, err := phasetable.New(t)
	return &api.Forecast{What: q.Fail, Table: rest}, err
}

// serveJobs serves the table of job 7, which is also called run-7.b, and the whole
// fabric's table as that of job 8.
func serveJobs(t testing.TB) (where string) {
	t.Helper()
	table := plan(t, 2, 2, 0, 1)
	other, _ := encode(t, table)
	table.Job = 7
	data, _ := encode(t, table)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/jobs/{job}/phases", func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("job") {
		case "7", "run-7.b":
			_, _ = w.Write(data)
		case "8":
			_, _ = w.Write(other)
		default:
			server.WriteError(w, api.Errorf("not-found", "there is no job %q", r.PathValue("job")))
		}
	})
	path := filepath.Join(t.TempDir(), "jobs")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return "unix:" + path
}

// TestDaemon fetches tables from forsd's own server, over a Unix socket and over
// TCP by IPv4, IPv6 and name, and hears of every new epoch.
func TestDaemon(t *testing.T) {
	dir := t.TempDir()
	for name, listen := range map[string]struct{ socket, tcp, scheme string }{
		"unix": {filepath.Join(dir, "a.sock"), "", "unix:" + filepath.Join(dir, "a.sock")},
		"IPv4": {filepath.Join(dir, "b.sock"), "127.0.0.1:0", "http://127.0.0.1:"},
		"IPv6": {filepath.Join(dir, "c.sock"), "[::1]:0", "http://[::1]:"},
		"name": {filepath.Join(dir, "d.sock"), "127.0.0.1:0", "http://localhost:"},
	} {
		t.Run(name, func(t *testing.T) {
			plans := &published.Plans{}
			s, _ := serve(t, plans, listen.socket, listen.tcp)
			where := listen.scheme
			if listen.tcp != "" {
				where += fmt.Sprint(s.Addr().(*net.TCPAddr).Port)
			}
			p := start(t)
			p.wants("open "+where, "error -9 0 503 "+where+": status 503: no plan is in force yet")
			view := publish(t, plans, 42)
			p.contains("open "+where, fmt.Sprintf("epoch 42 job 0 servers %d phases %d ", view.Servers(), view.Phases()))
			if got, want := strings.Join(p.do("dump"), "\n"), strings.Join(wantDump(view), "\n"); got != want {
				t.Errorf("the table fetched:\n%s\nwant\n%s", got, want)
			}
			p.wants("newer", "0 0")
			p.wants("newer", "0 0")
			p.wants("refresh", "0")
			publish(t, plans, 43)
			p.wants("await", "1 43")
			p.wants("newer", "1 43")
			publish(t, plans, 44)
			p.contains("refresh", "epoch 44 ")
			p.wants("newer", "0 0")
			publish(t, plans, 45)
			p.wants("await", "1 45")
		})
	}
}

// TestRemainingOfDaemon asks forsd's own server for the rest of an exchange.
func TestRemainingOfDaemon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "forsd.sock")
	plans := &published.Plans{}
	view := publish(t, plans, 42)
	s, _ := serve(t, plans, socket, "127.0.0.1:0")
	p := start(t)
	p.contains("open http://"+s.Addr().String(), "epoch 42 ")
	p.contains("remaining 1", "status 403: this is accepted on the Unix socket only")
	p.contains("open unix:"+socket, "epoch 42 ")
	p.contains("remaining 4|Spine000|Leaf001/5", fmt.Sprintf("epoch 42 job 0 servers %d phases %d ", view.Servers(), view.Phases()-4))
	left := view.Table()
	rows := 4 * len(left.Servers)
	left.Phases, left.To, left.Lane, left.DLID = left.Phases-4, left.To[rows:], left.Lane[rows:], left.DLID[rows:]
	_, want := encode(t, left)
	if d := cmp.Diff(wantDump(want), p.do("dump")); d != "" {
		t.Errorf("what is left (-Go +C):\n%s", d)
	}
	p.wants("newer", "0 0")
	publish(t, plans, 43)
	p.contains("remaining 1", "status 409: epoch 42 is not in force")
	p.wants("await", "1 43")
	p.contains("refresh", fmt.Sprintf("epoch 43 job 0 servers %d phases %d ", view.Servers(), view.Phases()))
}

// TestSameEpoch checks that processes that start one after the other, while epochs change,
// open the same table, and can still find newer ones.
func TestSameEpoch(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "forsd.sock")
	plans := &published.Plans{}
	for epoch := range uint64(6) {
		publish(t, plans, 41+epoch)
	}
	serve(t, plans, socket, "")
	p := start(t)
	p.contains("open unix:"+socket+"?epoch=42", "epoch 42 ")
	p.wants("await", "1 46")
	p.contains("refresh", "epoch 46 ")
	p.contains("open unix:"+socket+"?epoch=41", "status 410: there is no table of epoch 41: epoch 46 is in force")
}

// TestLocations opens tables by location and by environment.
func TestLocations(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "forsd.sock")
	plans := &published.Plans{}
	publish(t, plans, 42)
	s, _ := serve(t, plans, socket, "127.0.0.1:0")
	unix, tcp, jobs := "unix:"+socket, "http://"+s.Addr().String(), serveJobs(t)
	p := start(t)
	for _, c := range [][2]string{
		{unix + "?epoch=42", "epoch 42 "},
		{unix + "?timeout=1000&epoch=43", "error -22 0 410 " + unix + "?timeout=1000&epoch=43: status 410: there is no table of epoch 43: epoch 42 is in force, and only the last few before it are kept"},
		{unix + "?lids=pinned", "epoch 42 "},
		{unix + "?lids=lanes", "error -3 "},
		{jobs + "?job=7", "job 7 servers 4 "},
		{jobs + "?epoch=0&job=run-7.b", "job 7 servers 4 "},
		{jobs + "?job=8", "error -10 0 0 " + jobs + "?job=8: the table is that of job 0"},
		{jobs + "?job=9", "error -10 0 404 " + jobs + "?job=9: status 404: there is no job \"9\""},
		{tcp + "/?epoch=42", "epoch 42 "},
		{unix + "?", "epoch 42 "},
		{unix + "?job", "error -3 0 0 " + unix + "?job: \"job\" is none of job=JOB, lids=base, lids=pinned, epoch=N and timeout=MILLISECONDS"},
		{unix + "?job=", "error -3 "},
		{unix + "?job=7/8", "error -3 "},
		{unix + "?job=" + strings.Repeat("x", 101), "error -3 "},
		{unix + "?epoch=7x", "error -3 "},
		{unix + "?epoch=18446744073709551616", "error -3 "},
		{unix + "?timeout=0", "error -3 "},
		{unix + "?timeout=3600001", "error -3 "},
		{unix + "?colour=7", "error -3 "},
		{"unix:", "error -3 "},
		{"unix:/" + strings.Repeat("x", 107), "error -3 "},
		{"unix:/nowhere", "error -5 2 0 connect to unix:/nowhere: No such file or directory"},
		{"http://", "error -3 "},
		{"http://:80", "error -3 "},
		{"http://host:", "error -3 "},
		{"http://host:0", "error -3 "},
		{"http://host:65536", "error -3 "},
		{"http://host:80x", "error -3 "},
		{"http://host/v1", "error -3 "},
		{"http://[::1", "error -3 "},
		{"http://[::1]80", "error -3 "},
		{"http://127.0.0.1:1", "error -5 111 0 connect to http://127.0.0.1:1: Connection refused"},
		{"http://no.such.host.invalid", "error -5 0 0 http://no.such.host.invalid: look up no.such.host.invalid: "},
		{"https://host", "error -3 0 0 https://host: there is no TLS here"},
	} {
		p.contains("open "+c[0], c[1])
	}
	p.wants("setenv FORSD_JOB=7", "")
	p.wants("setenv FORSD_TABLE="+jobs, "")
	p.contains("open", "job 7 servers 4 phases 3 lanes 2 lmc 1")
	p.contains("open", "location "+jobs+"?job=7")
	p.contains("refresh", "0")
	p.contains("open "+unix, "job 0 ")
	p.wants("setenv FORSD_TABLE="+jobs+"?timeout=900", "")
	p.contains("open", "location "+jobs+"?timeout=900&job=7")
	p.wants("setenv FORSD_JOB=number 7", "")
	p.contains("open", "error -3 0 0 $FORSD_JOB is \"number 7\"")
	p.wants("setenv FORSD_TABLE=", "")
	p.wants("setenv FORSD_JOB=", "")
	p.contains("open", "unix:/run/forsd/forsd.sock")
}

// TestDaemonRestarts loses the daemon, reports it, and hears of the next epoch once
// the daemon is back.
func TestDaemonRestarts(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "forsd.sock")
	plans := &published.Plans{}
	publish(t, plans, 42)
	_, stop := serve(t, plans, socket, "")
	p := start(t)
	p.contains("open unix:"+socket, "epoch 42 ")
	p.wants("newer", "0 0")
	stop()
	p.contains("await", "error -")
	p.contains("refresh", "error -5 2 0 connect to unix:"+socket)
	publish(t, plans, 43)
	serve(t, plans, socket, "")
	for {
		answer := p.do("await")
		if answer[0] == "1 43" {
			break
		}
		if !strings.HasPrefix(answer[0], "error -5 ") {
			t.Fatalf("await: %v", answer)
		}
	}
	p.contains("refresh", "epoch 43 ")
}
