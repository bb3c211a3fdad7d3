package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// store keeps what is put, and counts it: all that a switch's RESTCONF server need
// do here. Package polatis tests the requests.
type store struct {
	mu   sync.Mutex
	body []byte
	puts int
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == http.MethodPut:
		s.body, _ = io.ReadAll(r.Body)
		s.puts++
		w.WriteHeader(http.StatusNoContent)
	case s.body == nil:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = w.Write(s.body)
	}
}

// TestApplyExecutes carries a schedule out on two servers.
func TestApplyExecutes(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("D.csv"), []byte("0,.61,.3,.1\n.1,0,.61,.3\n.3,.1,0,.61\n.61,.3,.1,0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	forsctl := func(args ...string) string {
		var out, errs bytes.Buffer
		if code := Run(args, &out, &errs); code != 0 {
			t.Fatalf("forsctl %v exits with %d: %s", args, code, &errs)
		}
		return out.String()
	}
	forsctl("ocs", "schedule", "--demand", path("D.csv"), "--switches", "2", "--delta", "0.01", "--method", "fast", "--out", path("s.json"))
	site := "version: 1\nunit: 1ms\nswitches:\n"
	var stores [2]store
	for i := range stores {
		server := httptest.NewServer(&stores[i])
		defer server.Close()
		site += fmt.Sprintf("  - {name: ocs-%d, driver: polatis, url: %q, ingress: 1-4, egress: 5-8}\n", i, server.URL)
	}
	if err := os.WriteFile(path("site.yaml"), []byte(site), 0o644); err != nil {
		t.Fatal(err)
	}
	out := forsctl("ocs", "apply", "--schedule", path("s.json"), "--config", path("site.yaml"), "--execute")
	if strings.Count(out, "ocs-0") != 1 || strings.Count(out, "ocs-1") != 3 || strings.Contains(out, "Nothing was changed") {
		t.Errorf("it says:\n%s", out)
	}
	if stores[0].puts != 1 || stores[1].puts != 3 {
		t.Errorf("the switches were changed %d and %d times, want 1 and 3", stores[0].puts, stores[1].puts)
	}
	if want := `{"optical-switch:cross-connects":{"pair":[{"ingress":1,"egress":6},{"ingress":2,"egress":7},{"ingress":3,"egress":8},{"ingress":4,"egress":5}]}}`; string(stores[1].body) != want {
		t.Errorf("switch 1 ends with %s, want %s", stores[1].body, want)
	}
}
