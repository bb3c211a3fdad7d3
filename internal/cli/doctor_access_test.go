package cli

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/testbed/authority"
)

// TestDoctorAccess checks that doctor finds an expired certificate, a missing key and a port in
// use if forsd does not run, and repeats the warnings of a forsd that runs.
func TestDoctorAccess(t *testing.T) {
	dir := t.TempDir()
	ca := authority.New(t, "authority")
	put := func(until time.Time) (key string) {
		_, cert, text := ca.Issue(t, "forsd", until)
		key = filepath.Join(dir, "key.pem")
		for path, text := range map[string][]byte{filepath.Join(dir, "cert.pem"): cert, key: text} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return key
	}
	cfg := config.Default()
	cfg.API.TLS.Certificate, cfg.API.TLS.Key = filepath.Join(dir, "cert.pem"), put(time.Now().Add(time.Hour))
	found := func(status *api.Status) (out []string) {
		d := doctor{config: cfg, status: status}
		d.checkAccess()
		for _, f := range d.Checks {
			out = append(out, string(f.Grade)+" "+f.Check)
		}
		return out
	}
	want := func(what string, have []string, want ...string) {
		t.Helper()
		if !slices.Equal(have, want) {
			t.Errorf("%s: %v, want %v", what, have, want)
		}
	}
	want("all is well", found(nil), "ok access")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg.API.Listen = taken.Addr().String()
	put(time.Now().Add(-time.Minute))
	want("expired, and a taken port", found(nil), "fail "+access.Expired, "fail "+access.ListenerDown)
	cfg.API.Listen, cfg.API.TLS.Key = "", filepath.Join(dir, "none.pem")
	want("no key", found(nil), "fail "+access.Incomplete)
	want("a running forsd", found(&api.Status{Warnings: []api.Warning{{Code: "cable-down"}, {Code: access.ExpiresSoon}, {Code: access.Expired}, {Code: access.ListenerDown}}}),
		"warn "+access.ExpiresSoon, "fail "+access.Expired, "warn "+access.ListenerDown)
	want("a running forsd that is well", found(&api.Status{}), "ok access")
}
