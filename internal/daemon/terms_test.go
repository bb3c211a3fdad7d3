package daemon

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/config"
)

// inForce waits until a warning is in force or has ended, as wanted, and returns its
// text.
func (g *guarded) inForce(t *testing.T, code string, want bool) string {
	t.Helper()
	for range 500 {
		text := ""
		for _, w := range g.health.List(time.Now()) {
			if w.Code == code {
				text = w.Text
			}
		}
		if (text != "") == want {
			return text
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%s is in force: %t, want %t", code, !want, want)
	return ""
}

// TestOptionalListeners starts forsd while another program uses the port of api.listen
// and the TLS key is missing. forsd works, warns of both, and listens as soon as it can.
func TestOptionalListeners(t *testing.T) {
	var taken net.Listener
	var problems []string
	g := guard(t, func(c *config.Config) {
		var err error
		taken, err = net.Listen("tcp", c.API.Listen)
		ok(t, err, os.Rename(c.API.TLS.Key, c.API.TLS.Key+".away"))
		problems, _ = Problems(c)
	})
	if all := strings.Join(problems, "\n"); len(problems) != 2 || !strings.Contains(all, "api.listen: ") || !strings.Contains(all, "key.pem") {
		t.Errorf("forsd --check says %q", problems)
	}
	if text := g.inForce(t, access.ListenerDown, true); !strings.Contains(text, "api.listen") || !strings.Contains(text, g.plain) {
		t.Errorf("the warning says %q", text)
	}
	if text := g.inForce(t, access.Incomplete, true); !strings.Contains(text, "key.pem") {
		t.Errorf("the warning says %q", text)
	}
	if status, text := g.bySocket(os.Getuid(), api.Administrator).ask(t, "GET", "/v1/status"); status != http.StatusOK || !strings.Contains(text, access.ListenerDown) {
		t.Errorf("on the socket: %d %s", status, text)
	}
	ok(t, taken.Close(), os.Rename(filepath.Join(g.dir, "key.pem.away"), filepath.Join(g.dir, "key.pem")))
	g.inForce(t, access.ListenerDown, false)
	answered := func(w *way, want int) {
		t.Helper()
		status, text := 0, ""
		for range 100 {
			if status, text = w.ask(t, "GET", "/v1/status"); status == want {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("%d %s, want %d", status, text, want)
	}
	answered(&way{url: "http://" + g.plain, http: http.DefaultClient}, http.StatusOK)
	answered(g.overTLS(api.Nobody, ""), http.StatusUnauthorized)
	g.inForce(t, access.Incomplete, false)
	if problems, expiring := Problems(g.cfg); len(problems) > 0 || len(expiring) > 0 {
		t.Errorf("forsd --check beside a forsd that runs: %q, %q", problems, expiring)
	}
}

// TestFabricName looks for the fabric's name in the status and in all metrics.
func TestFabricName(t *testing.T) {
	g := guard(t, func(c *config.Config) { c.Fabric = "plane-3" })
	admin := g.bySocket(os.Getuid(), api.Administrator)
	if _, status := admin.ask(t, "GET", "/v1/status"); !strings.Contains(status, `"fabric":"plane-3"`) {
		t.Errorf("the status does not name the fabric: %s", status)
	}
	_, metrics := admin.ask(t, "GET", "/metrics")
	for line := range strings.Lines(metrics) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, `fabric="plane-3"`) {
			t.Errorf("a metric does not name the fabric: %s", line)
		}
	}
}

// TestExpiry checks the warnings about a certificate, an authority, a list, a token and a
// lease that expire, and the metrics of their times.
func TestExpiry(t *testing.T) {
	g := guard(t)
	now := time.Now()
	if kinds := fmt.Sprint(terms(g.components, now)); strings.Count(kinds, "{") != 3 {
		t.Errorf("terms: %s", kinds)
	}
	_, _, err := g.callers.access.Tokens.Create("grafana", api.Viewer, api.DefaultTokenLife, "test", now)
	ok(t, err)
	later := now.Add(api.DefaultTokenLife - 5*24*time.Hour)
	codes := map[string]int{}
	for _, f := range access.Judge(terms(g.components, later), later) {
		codes[f.Code]++
	}
	if codes[access.ExpiresShortly] != 1 || codes[access.Expired] != 3 {
		t.Errorf("85 days later: %v", codes)
	}
	_, text := g.bySocket(os.Getuid(), api.Administrator).ask(t, "GET", "/metrics")
	for _, kind := range []string{"certificate", "client_ca", "revoked", "token"} {
		if !strings.Contains(text, `forsd_expires_timestamp_seconds{kind="`+kind+`"}`) {
			t.Errorf("no metric tells when the first %s expires", kind)
		}
	}
	ok(t, os.WriteFile(filepath.Join(g.dir, "cert.pem"), expired(t, g), 0o600))
	g.callers.access.Certificates.Terms() // the files are read once a second
	for range 100 {
		if found := access.Judge(terms(g.components, time.Now()), time.Now()); len(found) == 1 && found[0].Code == access.Expired {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("a certificate that has expired: %v", access.Judge(terms(g.components, time.Now()), time.Now()))
}

// expired returns an expired certificate of forsd, and installs its key.
func expired(t *testing.T, g *guarded) []byte {
	t.Helper()
	_, cert, key := g.ca.Issue(t, "forsd", time.Now().Add(-time.Minute))
	ok(t, os.WriteFile(filepath.Join(g.dir, "key.pem"), key, 0o600))
	return cert
}

// TestRefusedPosts refuses a user of a host again and again. The ranks of that host still
// get their plan, and the refusals do not fill the history.
func TestRefusedPosts(t *testing.T) {
	g := guard(t)
	user := &way{url: "http://" + g.plain, http: http.DefaultClient}
	busy := 0
	for range 200 {
		switch status, text := user.ask(t, "POST", "/v1/jobs"); status {
		case http.StatusForbidden:
		case http.StatusServiceUnavailable:
			busy++
		default:
			t.Fatalf("%d %s", status, text)
		}
		if status, text := user.ask(t, "GET", "/v1/status"); status != http.StatusOK {
			t.Fatalf("a rank of the host is refused: %d %s", status, text)
		}
	}
	if told := len(g.logs.FilterMessage("ordered").All()); busy == 0 || told > 200-busy {
		t.Errorf("of 200 refused orders %d were told of", told)
	}
}
