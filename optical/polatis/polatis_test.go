package polatis

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forsd/forsd/optical/driver"
	"github.com/forsd/forsd/optical/ocs"
)

const pairsPath = "/api/data/optical-switch:cross-connects"

// restconf is a server of the module optical-switch: ports up to half are ingress, the
// others egress. It refuses every request that RFC 8040 or the module does not allow.
type restconf struct {
	half    int
	mu      sync.Mutex
	pair    map[int]int // egress by ingress
	patches int
	fail    func(r *http.Request) (int, string) // a status and body in place of the answer, if the status is not 0
}

func (s *restconf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if status, body := s.fail(r); status != 0 {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return
		}
	}
	user, password, _ := r.BasicAuth()
	switch {
	case user != "admin" || password != "secret":
		s.no(w, http.StatusUnauthorized, "access-denied", "who are you")
	case r.Header.Get("Accept") != "application/yang-data+json":
		s.no(w, http.StatusNotAcceptable, "invalid-value", "JSON alone")
	case !strings.HasPrefix(r.URL.Path, pairsPath) || r.URL.RawQuery != "":
		s.no(w, http.StatusNotFound, "invalid-value", "no such resource")
	case r.Method == http.MethodGet && r.URL.Path == pairsPath:
		s.get(w)
	case r.Method == http.MethodPatch && r.URL.Path == pairsPath:
		s.patch(w, r)
	case r.Method == http.MethodDelete:
		var ingress int
		_, err := fmt.Sscanf(r.URL.Path, pairsPath+"/pair=%d", &ingress)
		if _, there := s.pair[ingress]; err != nil || !there {
			s.no(w, http.StatusNotFound, "data-missing", "nothing is connected there")
			return
		}
		delete(s.pair, ingress)
		w.WriteHeader(http.StatusNoContent)
	default:
		s.no(w, http.StatusMethodNotAllowed, "operation-not-supported", r.Method)
	}
}

func (s *restconf) no(w http.ResponseWriter, status int, tag, message string) {
	w.Header().Set("Content-Type", "application/yang-data+json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"ietf-restconf:errors":{"error":[{"error-type":"application","error-tag":%q,"error-message":%q}]}}`, tag, message)
}

func (s *restconf) get(w http.ResponseWriter) {
	if len(s.pair) == 0 {
		s.no(w, http.StatusNotFound, "data-missing", "nothing is connected")
		return
	}
	var list []string
	for in, out := range s.pair {
		list = append(list, fmt.Sprintf(`{"ingress":%d,"egress":%d}`, in, out))
	}
	w.Header().Set("Content-Type", "application/yang-data+json")
	fmt.Fprintf(w, `{"optical-switch:cross-connects":{"pair":[%s]}}`, strings.Join(list, ","))
}

// patch merges pairs into the current ones.
func (s *restconf) patch(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Type") != "application/yang-data+json" {
		s.no(w, http.StatusUnsupportedMediaType, "invalid-value", "JSON alone")
		return
	}
	var body map[string]map[string][]map[string]int
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body) != 1 || len(body["optical-switch:cross-connects"]) != 1 {
		s.no(w, http.StatusBadRequest, "malformed-message", fmt.Sprint(body, err))
		return
	}
	pair, out := maps.Clone(s.pair), map[int]bool{}
	if pair == nil {
		pair = map[int]int{}
	}
	for _, p := range body["optical-switch:cross-connects"]["pair"] {
		i, e := p["ingress"], p["egress"]
		if len(p) != 2 || i < 1 || i > s.half || e <= s.half || e > 2*s.half {
			s.no(w, http.StatusBadRequest, "invalid-value", fmt.Sprintf("ingress %d egress %d", i, e))
			return
		}
		pair[i] = e
	}
	for i, e := range pair {
		if out[e] {
			s.no(w, http.StatusConflict, "operation-failed", fmt.Sprintf("ingress %d egress %d is taken", i, e))
			return
		}
		out[e] = true
	}
	s.pair = pair
	s.patches++
	w.WriteHeader(http.StatusNoContent)
}

// serve runs the server and its driver.
func serve(t *testing.T, s *restconf) *Switch {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	sw, err := New(server.URL+"/", "admin", "secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	return sw
}

func connected(t *testing.T, sw driver.Switch) []driver.Pair {
	t.Helper()
	got, err := sw.Connected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b driver.Pair) int { return a.Ingress - b.Ingress })
	return got
}

// TestConnect makes cross-connects, replaces them, and removes them all, twice.
func TestConnect(t *testing.T) {
	changes(t, serve(t, &restconf{half: 8}))
}

// changes makes, moves and removes the cross-connects of a switch with eight ingress ports,
// 1 to 8, and as many egress ports, twice.
func changes(t *testing.T, sw driver.Switch) {
	t.Helper()
	type pairs = []driver.Pair
	for _, c := range []struct {
		remove []int
		pairs  pairs
		want   pairs
	}{
		{nil, pairs{{Ingress: 1, Egress: 9}, {Ingress: 2, Egress: 16}}, pairs{{Ingress: 1, Egress: 9}, {Ingress: 2, Egress: 16}}},
		{nil, pairs{{Ingress: 1, Egress: 16}, {Ingress: 2, Egress: 9}}, pairs{{Ingress: 1, Egress: 16}, {Ingress: 2, Egress: 9}}},
		{[]int{1}, pairs{{Ingress: 3, Egress: 16}}, pairs{{Ingress: 2, Egress: 9}, {Ingress: 3, Egress: 16}}},
		{[]int{2}, nil, pairs{{Ingress: 3, Egress: 16}}},
		{[]int{2, 3}, nil, pairs{}},
		{[]int{3}, nil, pairs{}},
	} {
		if err := sw.Change(t.Context(), c.remove, c.pairs); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, connected(t, sw), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("cross-connects (-want +got):\n%s", d)
		}
	}
	if err := sw.Change(t.Context(), nil, pairs{{Ingress: 1, Egress: 2}}); err == nil {
		t.Error("a pair that the switch cannot make: no error")
	}
	if err := sw.Change(t.Context(), nil, pairs{{Ingress: 1, Egress: 9}, {Ingress: 2, Egress: 9}}); err == nil {
		t.Error("two pairs with one port: no error")
	}
	if got := connected(t, sw); len(got) != 0 {
		t.Errorf("after changes that were refused %v are connected", got)
	}
}

// TestScheduleOnSwitches executes a schedule on two switches, one of which has a
// cross-connect of other ports.
func TestScheduleOnSwitches(t *testing.T) {
	d, err := ocs.Workload("benchmark", 6, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ocs.Make(t.Context(), d, ocs.Options{Switches: 2, Delta: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	servers := []*restconf{{half: 8, pair: map[int]int{8: 16}}, {half: 8}}
	var lines []driver.Line
	for i, server := range servers {
		lines = append(lines, driver.Line{Name: fmt.Sprint("ocs-", i), Switch: serve(t, server),
			Ingress: []int{1, 2, 3, 4, 5, 6}, Egress: []int{14, 13, 12, 11, 10, 9}})
	}
	events := make(chan driver.Event, s.Configurations())
	if err := driver.Run(t.Context(), s, lines, time.Microsecond, time.Now(), func(e driver.Event) { events <- e }); err != nil {
		t.Fatal(err)
	}
	if len(events) != s.Configurations() {
		t.Errorf("%d events, want %d", len(events), s.Configurations())
	}
	for h, server := range servers {
		if server.patches != len(s.Switches[h].Configs) {
			t.Errorf("switch %d was changed %d times, want %d", h, server.patches, len(s.Switches[h].Configs))
		}
		want := map[int]int{}
		if h == 0 {
			want[8] = 16
		}
		last := s.Switches[h].Configs[len(s.Switches[h].Configs)-1]
		for i, j := range last.Permutation {
			if i != int(j) {
				want[1+i] = 14 - int(j)
			}
		}
		if d := cmp.Diff(want, server.pair); d != "" {
			t.Errorf("switch %d in the end (-want +got):\n%s", h, d)
		}
	}
}

// TestRefusals lets the switch refuse requests or send garbage, and checks the errors.
func TestRefusals(t *testing.T) {
	always := func(status int, body string) func(*http.Request) (int, string) {
		return func(*http.Request) (int, string) { return status, body }
	}
	for _, c := range []struct {
		fail func(*http.Request) (int, string)
		want string
	}{
		{always(500, `{"ietf-restconf:errors":{"error":[{"error-tag":"operation-failed","error-message":"port 9 is dark"}]}}`), "operation-failed port 9 is dark"},
		{always(401, ""), "check username and password_file"},
		{always(302, ""), "302"},
		{always(200, "<pair/>"), "invalid character"},
		{always(200, strings.Repeat(" ", maxAnswer+1)), "is longer than"},
	} {
		sw := serve(t, &restconf{half: 8, fail: c.fail})
		if _, err := sw.Connected(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("read: %v, want %q", err, c.want)
		}
	}
	sw := serve(t, &restconf{half: 8})
	if err := sw.Change(t.Context(), nil, []driver.Pair{{Ingress: 1, Egress: 2}}); err == nil || !strings.Contains(err.Error(), "ingress 1 egress 2") {
		t.Errorf("a pair that the switch cannot make: %v", err)
	}
	if _, err := New("switch.example", "", "", nil); err == nil {
		t.Error("an address without a scheme: no error")
	}
}

// TestOpen reads the password and the certificate from files.
func TestOpen(t *testing.T) {
	server := httptest.NewTLSServer(&restconf{half: 8, pair: map[int]int{1: 9}})
	defer server.Close()
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	e := driver.Entry{Name: "one", URL: server.URL, Username: "admin", PasswordFile: write("password", []byte("secret\n")),
		CAFile: write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))}
	sw, err := Open(&e)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]driver.Pair{{Ingress: 1, Egress: 9}}, connected(t, sw)); d != "" {
		t.Error(d)
	}
	for _, spoil := range []func(e *driver.Entry){
		func(e *driver.Entry) { e.PasswordFile += "x" },
		func(e *driver.Entry) { e.CAFile += "x" },
		func(e *driver.Entry) { e.CAFile = e.PasswordFile },
	} {
		bad := e
		spoil(&bad)
		if _, err := Open(&bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	e.CAFile = ""
	if sw, err = Open(&e); err != nil {
		t.Fatal(err)
	}
	if _, err := sw.Connected(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate of an unknown authority: %v", err)
	}
}
