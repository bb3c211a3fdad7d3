package forsplan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// store merges patches and counts them, which is all that a switch's RESTCONF server has to do
// here. Package polatis tests the requests.
type store struct {
	mu      sync.Mutex
	takes   time.Duration
	egress  map[int]int // by ingress
	patches int
	patched func() // if set, called after a patch
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type pair struct {
		Ingress int `json:"ingress"`
		Egress  int `json:"egress"`
	}
	var x struct {
		C struct {
			Pair []pair `json:"pair"`
		} `json:"optical-switch:cross-connects"`
	}
	if r.Method == http.MethodPatch {
		time.Sleep(s.takes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPatch {
		if err := json.NewDecoder(r.Body).Decode(&x); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, p := range x.C.Pair {
			s.egress[p.Ingress] = p.Egress
		}
		s.patches++
		w.WriteHeader(http.StatusNoContent)
		if s.patched != nil {
			s.patched()
		}
		return
	}
	for in, out := range s.egress {
		x.C.Pair = append(x.C.Pair, pair{in, out})
	}
	_ = json.NewEncoder(w).Encode(x)
}

// TestApplyExecutes carries a schedule out on two servers.
func TestApplyExecutes(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("D.csv"), []byte("0,.61,.3,.1\n.1,0,.61,.3\n.3,.1,0,.61\n.61,.3,.1,0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	forsplan := func(args ...string) string {
		var out, errs bytes.Buffer
		if code := Run(args, &out, &errs); code != 0 {
			t.Fatalf("forsplan %v exits with %d: %s", args, code, &errs)
		}
		return out.String()
	}
	forsplan("ocs", "schedule", "--demand", path("D.csv"), "--switches", "2", "--delta", "0.01", "--method", "fast", "--out", path("s.json"))
	site := "version: 1\nunit: 1ms\nswitches:\n"
	var stores [2]store
	for i := range stores {
		stores[i].egress = map[int]int{}
		server := httptest.NewServer(&stores[i])
		defer server.Close()
		site += fmt.Sprintf("  - {name: ocs-%d, driver: polatis, url: %q, ingress: 1-4, egress: 5-8}\n", i, server.URL)
	}
	if err := os.WriteFile(path("site.yaml"), []byte(site), 0o644); err != nil {
		t.Fatal(err)
	}
	out := forsplan("ocs", "apply", "--schedule", path("s.json"), "--config", path("site.yaml"), "--execute", "--late", "1h")
	if strings.Count(out, "ocs-0") != 1 || strings.Count(out, "ocs-1") != 3 || strings.Contains(out, "Nothing was changed") {
		t.Errorf("it says:\n%s", out)
	}
	if stores[0].patches != 1 || stores[1].patches != 3 {
		t.Errorf("the switches were changed %d and %d times, want 1 and 3", stores[0].patches, stores[1].patches)
	}
	if d := cmp.Diff(map[int]int{1: 6, 2: 7, 3: 8, 4: 5}, stores[1].egress); d != "" {
		t.Errorf("switch 1 in the end (-want +got):\n%s", d)
	}

	// A switch takes longer than δ: traffic sent in the meantime is lost.
	stores[0].takes, stores[0].egress = 50*time.Millisecond, map[int]int{}
	var shown, errs bytes.Buffer
	code := Run([]string{"ocs", "apply", "--schedule", path("s.json"), "--config", path("site.yaml"), "--execute"}, &shown, &errs)
	if code != 1 || !strings.Contains(errs.String(), "carried: circuits stood too late, most those of configuration 0 of switch ocs-0, by ") {
		t.Errorf("exit %d: %s\n%s", code, &errs, &shown)
	}

	// After an interrupt, the configurations made so far are reported.
	stores[0].takes, stores[0].egress = 0, map[int]int{}
	if err := os.WriteFile(path("site.yaml"), []byte(strings.Replace(site, "1ms", "1h", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	stores[0].patched = func() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGINT) }
	errs.Reset()
	code = Run([]string{"ocs", "apply", "--schedule", path("s.json"), "--config", path("site.yaml"), "--execute"}, &shown, &errs)
	if code != 1 || !strings.Contains(errs.String(), " of 4 configurations made: interrupted") {
		t.Errorf("exit %d: %s\n%s", code, &errs, &shown)
	}
}
