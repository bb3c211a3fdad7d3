package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
)

func TestEndpoints(t *testing.T) {
	const onSocket, onTCP, offTCP = 0, 1, 2
	for _, c := range []struct {
		listener     int
		method, path string
		body         string
		status       int
		want         string // in the answer
	}{
		{onSocket, "GET", "/healthz", "", 200, `{"status":"ok"}`},
		{onSocket, "GET", "/readyz", "", 200, `{"status":"ready"}`},
		{onSocket, "GET", "/metrics", "", 200, "forsd_epoch 42"},
		{onSocket, "GET", "/v1/status", "", 200, `"epoch":42`},
		{onSocket, "GET", "/v1/topology", "", 200, `"cables":["full","missing"]`},
		{onSocket, "GET", "/v1/epochs", "", 200, `{"epochs":[{"epoch":41,`},
		{onSocket, "GET", "/v1/plan", "", 200, `{"epoch":42,"published_at":"2026-07-01T08:01:00Z","version":1,"phases":3}`},
		{onSocket, "POST", "/v1/reroute", "", 200, `{"epoch":43,"changed":true,"text":"planned afresh"}`},
		{onSocket, "POST", "/v1/reroute", "{}", 200, `"epoch":43`},
		{onSocket, "POST", "/v1/whatif", `{"fail":["Spine012","Leaf007/31"]}`, 200, `{"what":["Spine012","Leaf007/31"],"plan":{"phases":361}}`},
		{onSocket, "POST", "/v1/whatif", `{"done":120}`, 200, `{"what":[],"plan":{"phases":361},"remaining":{"epoch":42,"done":120,`},
		{onSocket, "POST", "/v1/whatif?format=csv", `{"done":120}`, 200, "phase,src_guid,dst_guid,lane,dlid"},
		{onSocket, "POST", "/v1/rollback", `{"epoch":41}`, 200, `"epoch":44`},
		{onSocket, "POST", "/v1/gpu/lanes", "", 200, "frames"},
		{onSocket, "POST", "/v1/baseline/accept", "", 409, `{"code":"refused","error":"the baseline stays"}`},
		{onSocket, "GET", "/v1/baseline/accept", "", 405, "use POST"},
		{onTCP, "POST", "/v1/baseline/accept", "", 403, "this is accepted on the Unix socket only"},
		{onSocket, "GET", "/v1/status", "{}", 400, "GET takes no body"},
		{onSocket, "GET", "/", "", 200, "<title>forsd</title>"},
		{onSocket, "GET", "/v1/plan/nothing", "", 404, "there is nothing at /v1/plan/nothing"},
		{onSocket, "DELETE", "/v1/plan", "", 405, "DELETE is not allowed on /v1/plan: use GET, HEAD"},
		{onSocket, "GET", "/v1/rollback", "", 405, "use POST"},
		{onTCP, "GET", "/v1/status", "", 200, `"epoch":42`},
		{onTCP, "POST", "/v1/gpu/lanes", "", 403, `"code":"forbidden"`},
		{onTCP, "POST", "/v1/reroute", "", 403, "this is accepted on the Unix socket only"},
		{onTCP, "POST", "/v1/whatif", `{"fail":["Spine010"]}`, 403, `"code":"forbidden"`},
		{onTCP, "POST", "/v1/rollback", `{"epoch":41}`, 403, `"code":"forbidden"`},
		{offTCP, "GET", "/v1/status", "", 403, "api.read_over_tcp"},
		{offTCP, "GET", "/v1/plan/phases", "", 403, `"code":"forbidden"`},
		{offTCP, "POST", "/v1/gpu/lanes", "", 403, `"code":"forbidden"`},
		{offTCP, "GET", "/healthz", "", 200, "ok"},
		{offTCP, "GET", "/readyz", "", 200, "ready"},
		{offTCP, "GET", "/metrics", "", 200, "forsd_epoch"},
	} {
		s := newSite(t)
		s.ReadOverTCP = c.listener == onTCP
		w := request(Handler(s.Config, c.listener != onSocket), c.method, c.path, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s on listener %d: %d %s, want %d with %s", c.method, c.path, c.listener, w.Code, w.Body, c.status, c.want)
		}
		if got := w.Header().Get("Content-Type"); w.Code >= 400 && got != "application/json" {
			t.Errorf("%s %s: an error of type %q", c.method, c.path, got)
		}
		if w.Code == 403 && len(s.calls) > 0 {
			t.Errorf("%s %s was forbidden, yet did %q", c.method, c.path, s.calls)
		}
		if w.Code == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
}

func TestStatusRoundTrip(t *testing.T) {
	s := newSite(t)
	var got api.Status
	d := json.NewDecoder(request(Handler(s.Config, false), "GET", "/v1/status", "").Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Status(), got); diff != "" {
		t.Errorf("status (-sent +received):\n%s", diff)
	}
}

func TestNotReady(t *testing.T) {
	s := newSite(t)
	s.ready, s.Plans = false, &published.Plans{}
	for path, code := range map[string]string{"/readyz": api.CodeNotReady, "/v1/plan": api.CodeNoPlan, "/v1/plan/phases": api.CodeNoPlan,
		"/v1/plan/servers/2": api.CodeNoPlan, "/v1/topology": api.CodeNoTopology} {
		w := request(Handler(s.Config, false), "GET", path, "")
		if w.Code != 503 || !strings.Contains(w.Body.String(), fmt.Sprintf(`"code":%q`, code)) || w.Header().Get("Retry-After") == "" || w.Header().Get("ETag") != "" {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
	}
	if w := request(Handler(s.Config, false), "GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("/healthz: %d", w.Code)
	}
}

func TestBadRequests(t *testing.T) {
	s := newSite(t)
	h := Handler(s.Config, false)
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/v1/rollback", "", 400, "has no body"},
		{"/v1/rollback", "{}", 400, "no epoch to go back to"},
		{"/v1/rollback", `{"epoch":-1}`, 400, "cannot unmarshal"},
		{"/v1/rollback", `{"epoch":41,"force":true}`, 400, `unknown field \"force\"`},
		{"/v1/rollback", `{"epoch":41}{}`, 400, "something follows"},
		{"/v1/rollback", `{"epoch":`, 400, "unexpected EOF"},
		{"/v1/whatif", `{"fail":[]}`, 400, "nothing to fail"},
		{"/v1/whatif", `{"epoch":42,"fail":["Spine010"]}`, 400, "epoch 42 without done"},
		{"/v1/whatif", `{"done":-1}`, 400, "is not a number of phases"},
		{"/v1/whatif", `{"done":"101%"}`, 400, "is not a share of a plan"},
		{"/v1/whatif", `{"done":[]}`, 400, "is not a number of phases"},
		{"/v1/whatif?format=xml", `{"done":1}`, 400, "does not exist: use"},
		{"/v1/whatif", `{"fail":["` + strings.Repeat("x", maxBody) + `"]}`, 413, "longer than 1048576 bytes"},
		{"/v1/reroute", `{"now":true}`, 400, "unknown field"},
	} {
		w := request(h, "POST", c.path, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %.60s: %d %s, want %d with %q", c.path, c.body, w.Code, w.Body, c.status, c.want)
		}
	}
	if len(s.calls) > 0 {
		t.Errorf("bad requests did %q", s.calls)
	}
}

func TestBackendErrors(t *testing.T) {
	s := newSite(t)
	h := Handler(s.Config, false)
	for _, c := range []struct {
		err    error
		status int
		want   string
	}{
		{api.Refused("epoch 41 uses Leaf007 port 31, which is down"), 409, `{"code":"refused","error":"epoch 41 uses Leaf007 port 31, which is down"}`},
		{fmt.Errorf("roll back: %w", api.NotFound("epoch 41 is not kept")), 404, `"error":"epoch 41 is not kept"`},
		{errors.New("disk full"), 500, `{"code":"internal","error":"disk full"}`},
	} {
		s.fails = c.err
		for path, body := range map[string]string{"/v1/rollback": `{"epoch":41}`, "/v1/reroute": "", "/v1/whatif": `{"fail":["x"]}`} {
			if w := request(h, "POST", path, body); w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%s: %d %s, want %d with %s", path, w.Code, w.Body, c.status, c.want)
			}
		}
	}
	if w := request(h, "GET", "/v1/epochs", ""); w.Code != 500 {
		t.Errorf("/v1/epochs: %d", w.Code)
	}
}

func TestServers(t *testing.T) {
	s := newSite(t)
	h := Handler(s.Config, false)
	for _, c := range []struct {
		key    string
		status int
		server int    // where the status is 200
		want   string // otherwise
	}{
		{"0x0000000000000010", 200, 0, ""},
		{"0xd", 200, 3, ""},
		{"100", 200, 0, ""},
		{"101", 200, 0, ""}, // its second LID
		{"107", 200, 3, ""},
		{"2", 200, 1, ""}, // a name, though it could be a LID
		{"node%2F0;mlx5_0", 200, 0, ""},
		{"node/0;mlx5_0", 200, 0, ""},
		{"twin", 409, 0, `2 servers are called \"twin\": ask by port GUID, one of 0x000000000000000e, 0x000000000000000d`},
		{"99", 404, 0, `no server of the plan has the name, port GUID or LID \"99\"`},
		{"0x99", 404, 0, api.CodeNotFound},
		{"0xzz", 404, 0, api.CodeNotFound},
		{"70000", 404, 0, api.CodeNotFound},
		{"", 404, 0, api.CodeNotFound},
	} {
		w := request(h, "GET", "/v1/plan/servers/"+c.key, "")
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s, want %d with %q", c.key, w.Code, w.Body, c.status, c.want)
			continue
		}
		if w.Code != 200 {
			continue
		}
		if w.Header().Get("ETag") != `"42"` {
			t.Errorf("%s: ETag %q", c.key, w.Header().Get("ETag"))
		}
		var got api.ServerPlan
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantServer(c.server), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.key, diff)
		}
	}
	// Nobody is absent, not zero.
	body := request(h, "GET", "/v1/plan/servers/0xd", "").Body.String()
	if want := `{"phase":2,"lane":-1}`; !strings.Contains(body, want) {
		t.Errorf("an idle phase in %s: want %s", body, want)
	}
}

// wantServer is the row of server s, read from the plan itself.
func wantServer(s int) api.ServerPlan {
	plan := shift(42)
	self := plan.Servers[s]
	out := api.ServerPlan{Epoch: 42, Server: api.ServerRef{GUID: self.GUID, LID: self.LID, LMC: self.LMC, Leaf: self.Leaf, Name: self.Name, Number: s}}
	for p := range plan.Phases {
		row := api.ServerPhase{Phase: p, Lane: int(plan.Lane[4*p+s]), DLID: plan.DLID[4*p+s]}
		for from, to := range plan.To[4*p : 4*p+4] {
			if from == s && to >= 0 {
				row.SendTo = plan.Servers[to].GUID
			}
			if int(to) == s {
				row.RecvFrom = plan.Servers[from].GUID
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// TestBaseLIDs asks for the plan for base LIDs, of the fabric and of jobs.
func TestBaseLIDs(t *testing.T) {
	s := newSite(t)
	get := func(path string, header ...string) *httptest.ResponseRecorder {
		return request(Handler(s.Config, false), "GET", path, "", header...)
	}
	for _, path := range []string{"/v1/plan", "/v1/plan/phases", "/v1/plan/servers/node000"} {
		if w := get(path + "?lids=base"); w.Code != 503 {
			t.Errorf("%s, without a plan for base LIDs: %d", path, w.Code)
		}
		if w := get(path + "?lids=some"); w.Code != 400 {
			t.Errorf("%s?lids=some: %d", path, w.Code)
		}
	}
	table := shift(7)
	for i, to := range table.To {
		if to >= 0 {
			table.DLID[i] = table.Servers[to].LID
		}
	}
	view, err := phasetable.New(table)
	if err != nil {
		t.Fatal(err)
	}
	p, err := published.NewPlan(view, json.RawMessage(`{"phases":3}`), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if now := s.Plans.Current(); now.OnBaseLIDs() || !p.OnBaseLIDs() {
		t.Error("the plans are taken for each other")
	}
	s.Bases = &published.Plans{}
	if w := get("/v1/plan/phases?lids=base"); w.Code != 503 {
		t.Errorf("before there is a plan for base LIDs: %d", w.Code)
	}
	s.Bases.Publish(p)
	if w := get("/v1/plan/phases?lids=base&format=binary"); w.Code != 200 || w.Header().Get("ETag") != `"7"` || !bytes.Equal(w.Body.Bytes(), view.Bytes()) {
		t.Errorf("the plan for base LIDs: %d, ETag %s", w.Code, w.Header().Get("ETag"))
	}
	for _, path := range []string{"/v1/plan/phases", "/v1/plan/phases?lids=pinned"} {
		if w := get(path); w.Code != 200 || w.Header().Get("ETag") != `"42"` {
			t.Errorf("%s: %d, ETag %s", path, w.Code, w.Header().Get("ETag"))
		}
	}
	if w := get("/v1/plan/phases?lids=base", "If-None-Match", `"7"`); w.Code != 304 {
		t.Errorf("the plan for base LIDs that the client has: %d", w.Code)
	}
	s.Bases.Withdraw()
	if w := get("/v1/plan/phases?lids=base"); w.Code != 503 {
		t.Errorf("after the plan for base LIDs was withdrawn: %d", w.Code)
	}
	if w := get("/v1/jobs/7/phases?lids=base"); w.Code != 503 && w.Code != 404 {
		t.Errorf("a job without a plan for base LIDs: %d", w.Code)
	}
}

func TestPhaseForms(t *testing.T) {
	s := newSite(t)
	var csv bytes.Buffer
	if err := phasetable.WriteCSV(&csv, shift(42)); err != nil {
		t.Fatal(err)
	}
	binary, err := phasetable.Encode(shift(42))
	if err != nil {
		t.Fatal(err)
	}
	const text, table, octets = "text/csv; charset=utf-8", "application/vnd.forsd.phasetable", "application/octet-stream"
	for _, c := range []struct{ query, accept, want string }{
		{"", "", text},
		{"", "*/*", text},
		{"", "text/*", text},
		{"", "application/*", table},
		{"", "application/vnd.forsd.phasetable", table},
		{"", "APPLICATION/OCTET-STREAM", octets},
		{"", "text/csv;q=0.5, application/octet-stream", octets},
		{"", "text/csv;q=0, */*", table},
		{"", "application/json", ""},
		{"", "text/csv;q=0", ""},
		{"", "nonsense//, ;", ""},
		{"?format=csv", "application/octet-stream", text},
		{"?format=binary", "text/csv", table},
		{"?format=xml", "text/csv", "bad"},
	} {
		var header []string
		if c.accept != "" {
			header = []string{"Accept", c.accept}
		}
		w := request(Handler(s.Config, false), "GET", "/v1/plan/phases"+c.query, "", header...)
		switch c.want {
		case "":
			if w.Code != 406 || w.Header().Get("ETag") != "" {
				t.Errorf("Accept %q: %d", c.accept, w.Code)
			}
			continue
		case "bad":
			if w.Code != 400 {
				t.Errorf("%s: %d", c.query, w.Code)
			}
			continue
		}
		want := binary
		if c.want == text {
			want = csv.Bytes()
		}
		if got := w.Header().Get("Content-Type"); w.Code != 200 || got != c.want || !bytes.Equal(w.Body.Bytes(), want) {
			t.Errorf("%s Accept %q: %d %q with %d bytes, want %q with %d", c.query, c.accept, w.Code, got, w.Body.Len(), c.want, len(want))
		}
		if w.Header().Get("Vary") != "Accept" || w.Header().Get("ETag") != `"42"` || w.Header().Get("Content-Length") != fmt.Sprint(len(want)) {
			t.Errorf("%s Accept %q: header %v", c.query, c.accept, w.Header())
		}
	}
}

func TestHead(t *testing.T) {
	server := httptest.NewServer(Handler(newSite(t).Config, false))
	defer server.Close()
	for _, path := range []string{"/v1/plan", "/v1/plan/phases", "/v1/plan/servers/100"} {
		get, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		get.Body.Close()
		head, err := http.Head(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		head.Body.Close()
		if head.StatusCode != 200 || head.ContentLength != get.ContentLength || head.Header.Get("ETag") != get.Header.Get("ETag") {
			t.Errorf("%s: HEAD %d, length %d, ETag %s; GET length %d, ETag %s", path, head.StatusCode, head.ContentLength,
				head.Header.Get("ETag"), get.ContentLength, get.Header.Get("ETag"))
		}
	}
}
