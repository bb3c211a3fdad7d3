package configs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// metric finds names of forsd's metrics in expressions.
var metric = regexp.MustCompile(`\bforsd_[a-z_]+`)

// explained are the metrics that the reference has, and those that the rules record.
func explained(t *testing.T, rules string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, name := range metric.FindAllString(string(text), -1) {
		for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
			out[name+suffix] = true
		}
	}
	for _, m := range regexp.MustCompile(`record: (\S+)`).FindAllStringSubmatch(rules, -1) {
		out[m[1]] = true
	}
	return out
}

// TestMonitoring holds that rules and dashboard ask for metrics that there are, and that
// every alert has a severity and a page that is there.
func TestMonitoring(t *testing.T) {
	raw, err := os.ReadFile("prometheus/forsd.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Record, Expr string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(raw, &rules); err != nil {
		t.Fatal(err)
	}
	known := explained(t, string(raw))
	check := func(where, expr string) {
		t.Helper()
		for _, name := range append(metric.FindAllString(expr, -1), regexp.MustCompile(`forsd:[a-z_0-9:]+`).FindAllString(expr, -1)...) {
			if !known[name] {
				t.Errorf("%s asks for %s, which there is not", where, name)
			}
		}
	}
	alerts := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			check(r.Alert+r.Record, r.Expr)
			if r.Alert == "" {
				continue
			}
			alerts++
			if s := r.Labels["severity"]; s != "critical" && s != "warning" && s != "info" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: %v %v", r.Alert, r.Labels, r.Annotations)
			}
			page, anchor, _ := strings.Cut(filepath.Base(r.Annotations["runbook_url"]), "#")
			anchor = strings.Replace(anchor, "{{ $labels.code }}", "cable-down", 1) // each code has a heading
			text, err := os.ReadFile("../docs/" + page)
			if err != nil || !strings.Contains(strings.ReplaceAll(strings.ToLower(string(text)), " ", "-"), "#-"+anchor+"\n") {
				t.Errorf("%s: %s leads nowhere (%v)", r.Alert, r.Annotations["runbook_url"], err)
			}
		}
	}
	if alerts < 8 {
		t.Errorf("there are %d alerts", alerts)
	}
	dashboard, err := os.ReadFile("grafana/forsd.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(dashboard, &board); err != nil || len(board.Panels) < 10 {
		t.Fatalf("%d panels: %v", len(board.Panels), err)
	}
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			check(p.Title, q.Expr)
		}
	}
}

// TestPromtool has Prometheus's and Alertmanager's own tools check and test the files.
func TestPromtool(t *testing.T) {
	for _, line := range [][]string{
		{"promtool", "check", "config", "prometheus/prometheus.yml"},
		{"promtool", "check", "rules", "prometheus/forsd.rules.yml"},
		{"promtool", "test", "rules", "prometheus/forsd.rules.test.yml"},
		{"amtool", "check-config", "alertmanager/alertmanager.yml"},
	} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v; make deps installs it\n%s", line, err, out)
		}
	}
}
