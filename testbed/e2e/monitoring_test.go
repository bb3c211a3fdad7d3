package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/internal/report"
)

const configs = "../../configs/"

// inbox keeps the messages posted to it.
type inbox struct {
	*httptest.Server
	mu   sync.Mutex // guards what follows
	text string
}

func newInbox(t *testing.T) *inbox {
	in := &inbox{}
	in.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		in.mu.Lock()
		in.text += string(body) + "\n"
		in.mu.Unlock()
	}))
	t.Cleanup(in.Close)
	return in
}

// has reports whether a message that came has all of the parts.
func (in *inbox) has(parts ...string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for line := range strings.Lines(in.text) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return true
		}
	}
	return false
}

// monitoring is a Prometheus and an Alertmanager that watch a site.
type monitoring struct {
	*test
	prometheus, alertmanager string // addresses
	mail                     *inbox
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// edited writes a file of configs to another directory, with texts replaced, each of which
// must exist.
func (x *test) edited(name, dir string, pairs ...string) string {
	x.Helper()
	raw, err := os.ReadFile(configs + name)
	x.ok(err)
	text := string(raw)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			x.Fatalf("%s does not have %q", name, pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	path := filepath.Join(dir, filepath.Base(name))
	x.ok(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// monitor starts Debian's Prometheus and Alertmanager on the files of configs, with shorter
// times, for a forsd that listens at an address. Mail goes to an inbox.
func (x *test) monitor(forsd string) *monitoring {
	x.Helper()
	m := &monitoring{x, freeAddress(x.T), freeAddress(x.T), newInbox(x.T)}
	dir := x.TempDir()
	x.edited("prometheus/forsd.rules.yml", dir, "for: 1m\n", "for: 1s\n", "for: 15m\n", "for: 1s\n")
	config := x.edited("prometheus/prometheus.yml", dir, "scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s", "node:7480", forsd, "localhost:9093", m.alertmanager)
	raw, err := os.ReadFile(configs + "alertmanager/alertmanager.yml")
	x.ok(err)
	_, mail, _ := strings.Cut(string(raw), "    email_configs:\n")
	routes := x.edited("alertmanager/alertmanager.yml", dir, "group_wait: 10s", "group_wait: 1s", "group_interval: 1m", "group_interval: 1s",
		"    email_configs:\n"+mail, "    webhook_configs: [{url: '"+m.mail.URL+"', send_resolved: true}]\n")
	x.run("prometheus-alertmanager", "--config.file="+routes, "--storage.path="+filepath.Join(dir, "alerts"), "--web.listen-address="+m.alertmanager, "--cluster.listen-address=", "--log.level=warn")
	x.run("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+m.prometheus, "--log.level=warn")
	return m
}

// run runs a program until the test ends.
func (x *test) run(program string, args ...string) {
	x.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		stop()
		x.Fatalf("%v: make deps installs it", err)
	}
	x.Cleanup(func() {
		stop()
		_ = cmd.Wait()
		if x.Failed() {
			x.Logf("%s: %s", program, said.String())
		}
	})
}

// get asks for JSON.
func get(ctx context.Context, address string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(a.Body)
		return fmt.Errorf("%s: %s %s", address, a.Status, text)
	}
	return json.NewDecoder(a.Body).Decode(into)
}

// query asks Prometheus, and returns the values, which are numbers.
func (m *monitoring) query(ctx context.Context, expr string) (values []float64, err error) {
	var a struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := get(ctx, "http://"+m.prometheus+"/api/v1/query?query="+url.QueryEscape(expr), &a); err != nil {
		return nil, err
	}
	for _, r := range a.Data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(v) {
			return nil, fmt.Errorf("%s gives %q", expr, text)
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("%s gives nothing", expr)
	}
	return values, nil
}

// alerts lists Alertmanager's active alerts, by name.
func (m *monitoring) alerts(ctx context.Context) (map[string]map[string]string, error) {
	var list []struct{ Labels, Annotations map[string]string }
	if err := get(ctx, "http://"+m.alertmanager+"/api/v2/alerts?active=true", &list); err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for _, a := range list {
		out[a.Labels["alertname"]] = a.Annotations
	}
	return out, nil
}

// comes waits until look is satisfied.
func (m *monitoring) comes(look func(context.Context) error) {
	m.Helper()
	ctx, cancel := m.within()
	defer cancel()
	m.ok(m.Until(ctx, func() error { return look(ctx) }))
}

// dashboard lists Grafana's queries to Prometheus, with the variables filled in.
func (x *test) dashboard() (all []string) {
	x.Helper()
	raw, err := os.ReadFile(configs + "grafana/forsd.json")
	x.ok(err)
	var board struct {
		Templating struct {
			List []struct {
				Query any
			}
		}
		Panels []struct{ Targets []struct{ Expr string } }
	}
	x.ok(json.Unmarshal(raw, &board))
	for _, p := range board.Panels {
		for _, t := range p.Targets {
			all = append(all, strings.NewReplacer("$instance", ".+", "$__rate_interval", "1m", "$__range", "1h").Replace(t.Expr))
		}
	}
	for _, v := range board.Templating.List {
		if q, is := v.Query.(map[string]any); is {
			query := strings.ReplaceAll(q["query"].(string), "$fabric", "plane-3")
			all = append(all, regexp.MustCompile(`^label_values\((\w+)(?:\{(.*)\})?, *(\w+)\)$`).ReplaceAllString(query, `count by ($3) ($1{$3!="",$2})`))
		}
	}
	for _, expr := range all {
		if strings.Contains(expr, "$") || strings.Contains(expr, "label_values") {
			x.Fatalf("there is a variable in %s", expr)
		}
	}
	return all
}

// report makes a report of the last hour.
func (x *test) report(intended []report.Wanted) *report.Report {
	x.Helper()
	now := time.Now()
	facts, err := report.Gather(x.ctx, x.Client, report.Span{From: now.Add(-time.Hour), To: now})
	x.ok(err)
	facts.Intended = intended
	r, err := report.Make(facts)
	x.ok(err)
	return r
}

// TestMonitoring makes Debian's Prometheus and Alertmanager watch a forsd by the files of
// configs, and by forsd's own webhook, and makes reports: a cable is pulled, which raises an
// alert; it is put back, which ends the alert. Every query of the dashboard gives data, and
// promtool finds nothing wrong with the metrics.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	o, forsd, hook := small(), freeAddress(t), newInbox(t)
	o.Config = "  listen: " + forsd + "\n" + steady + "webhook: {url: '" + hook.URL + "'}\nfabric: plane-3\n"
	x, healthy := up(t, 5*time.Minute, o)
	m := x.monitor(forsd)
	m.comes(func(ctx context.Context) error {
		values, err := m.query(ctx, `forsd_ready{job="forsd"}`)
		if err == nil && values[0] != 1 {
			err = fmt.Errorf("forsd is not ready: %v", values)
		}
		return err
	})
	leaf, port := healthy.Tree.Leaves[1].Name, int(healthy.Tree.Leaves[1].Cables[2].LeafPort)
	kept, err := os.ReadFile(x.SubnetFile())
	x.ok(err)
	intended, err := report.ReadIntended(kept)
	x.ok(err)
	pulled := time.Now()
	x.ok(x.Sim.Unlink(x.ctx, leaf, port))
	x.settled(Cable(1, 2, "missing"))
	m.comes(func(ctx context.Context) error {
		alerts, err := m.alerts(ctx)
		if err == nil && (!strings.Contains(alerts["FabricCableDown"]["runbook_url"], "warnings.md#cable-down") || alerts["ForsdDegraded"] == nil || !m.mail.has(`"status":"firing"`, `"FabricCableDown"`)) {
			err = fmt.Errorf("the alerts are %v", alerts)
		}
		return err
	})
	t.Logf("pulled: Alertmanager has told of it after %v", time.Since(pulled).Round(100*time.Millisecond))
	if r := x.report(intended); len(r.Intended.Differences) != 1 || r.Intended.Counts[report.Missing] != 1 || r.Baseline.Counts[report.Missing] != 1 {
		t.Errorf("one cable is missing, and the report says %+v and %+v", r.Intended, r.Baseline)
	}
	x.ok(x.Sim.Relink(x.ctx, leaf, port))
	back := time.Now()
	x.settled(Cable(1, 2, "full"))
	m.comes(func(ctx context.Context) error {
		alerts, err := m.alerts(ctx)
		if err == nil && (len(alerts) > 0 || !m.mail.has(`"status":"resolved"`, `"FabricCableDown"`)) {
			err = fmt.Errorf("the alerts are %v", alerts)
		}
		return err
	})
	t.Logf("back: Alertmanager has told of it after %v", time.Since(back).Round(100*time.Millisecond))
	for _, state := range [][]string{{`"state":"started"`}, {`"state":"raised"`, `"code":"cable-down"`, leaf}, {`"state":"over"`, `"code":"cable-down"`}} {
		m.comes(func(context.Context) error {
			if !hook.has(state...) {
				return fmt.Errorf("forsd's webhook has not told of %v", state)
			}
			return nil
		})
	}
	r := x.report(intended)
	if worst := r.Cables[0]; len(r.Intended.Differences)+len(r.Baseline.Differences) > 0 || !strings.Contains(worst.Cable, fmt.Sprintf("%s port %d", leaf, port)) || worst.Faults != 1 || r.Cables[1].Faults != 0 || r.Faults.Count != 1 {
		t.Errorf("one cable was down once, and the report says %+v %+v %+v %+v", r.Cables[:2], r.Faults, r.Intended, r.Baseline)
	}
	t.Logf("the report: %s was up for %.2f %% of %v, fault to plan %v s", r.Cables[0].Cable, 100*r.Cables[0].Share, r.Period.To.Sub(r.Period.From).Round(time.Second), r.Faults.Median)
	queries := x.dashboard()
	for _, expr := range queries {
		m.comes(func(ctx context.Context) error { _, err := m.query(ctx, expr); return err })
	}
	t.Logf("%d queries of the dashboard give data", len(queries))
	a, err := http.Get("http://" + forsd + "/metrics")
	x.ok(err)
	defer a.Body.Close()
	lint := exec.CommandContext(x.ctx, "promtool", "check", "metrics")
	lint.Stdin = a.Body
	if out, err := lint.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
