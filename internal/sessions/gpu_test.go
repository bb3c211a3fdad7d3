package sessions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/internal/nics"
	"github.com/forsd/forsd/internal/sealed"
)

// site is a server with its log.
type site struct {
	*Server
	told []string
}

func newSite() *site {
	x := &site{}
	x.Server = New(nics.Fabric{}, func(text string) { x.told = append(x.told, text) })
	return x
}

// ask sends a request to an endpoint, and decodes the answer if out is set.
func (x *site) ask(t *testing.T, request, body string, want int, out any) *httptest.ResponseRecorder {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	w := httptest.NewRecorder()
	x.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	if w.Code != want {
		t.Fatalf("%s %s: %d %s, want %d", request, body, w.Code, w.Body, want)
	}
	if out != nil {
		if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
			t.Fatalf("%s: %v: %s", request, err, w.Body)
		}
	}
	return w
}

const traffic = `"traffic":[[0,0,8,4],[0,0,2,8],[1,0,0,0],[0,1,0,0]]`

// TestSession checks that frames of a session are planned like single plans, that a failed NIC
// changes the next frame, and that the session records, logs and counts all of this.
func TestSession(t *testing.T) {
	x := newSite()
	var s GPUSession
	x.ask(t, "POST /v1/gpu/sessions", `{"name":"moe","servers":2,"gpus_per_server":2,"mode":"bytes","b2":1e9}`, 200, &s)
	if s.ID != 1 || s.Name != "moe" || s.Planned != 0 {
		t.Errorf("%+v", s)
	}
	alone, err := x.planGPU(t.Context(), []byte(`{"gpus_per_server":2,"mode":"bytes","b2":1e9,"rank":1,`+traffic+`}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(alone)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		w := x.ask(t, "POST /v1/gpu/sessions/1/frames", `{"rank":1,`+traffic+`}`, 200, nil)
		if w.Header().Get("Forsplan-Frame") != fmt.Sprint(n+1) || w.Body.String() != string(want)+"\n" {
			t.Errorf("frame %s: %s\nwant %s", w.Header().Get("Forsplan-Frame"), w.Body, want)
		}
	}
	x.ask(t, "POST /v1/gpu/sessions/1/failures", `{"bad_nics":["0:1"]}`, 200, &s)
	var r gpu.Report
	x.ask(t, "POST /v1/gpu/sessions/1/frames", `{`+traffic+`}`, 200, &r)
	if r.Length != 22 || r.Certificate == nil || r.Certificate.Server != 0 {
		t.Errorf("with one NIC of server 0 the length is %d, by %+v", r.Length, r.Certificate)
	}
	x.ask(t, "POST /v1/gpu/sessions/1/frames", `{"traffic":[[1]]}`, 400, nil)
	x.ask(t, "POST /v1/gpu/sessions/1/failures", `{}`, 200, nil)
	x.ask(t, "POST /v1/gpu/sessions/1/frames", `{`+traffic+`}`, 200, &r)
	x.ask(t, "GET /v1/gpu/sessions/1", "", 200, &s)
	var lengths []int64
	var bad []string
	for _, f := range s.Frames {
		lengths, bad = append(lengths, f.Length), append(bad, fmt.Sprint(f.Number, f.BadNICs))
		if f.PredictedSeconds <= 0 || f.PlanningSeconds <= 0 || f.Mode != "bytes" || f.Bound < 1 {
			t.Errorf("frame %+v", f)
		}
	}
	if d := cmp.Diff([]int64{11, 11, 22, 11}, lengths); d != "" || s.Planned != 4 || s.Refused != 1 {
		t.Errorf("%d planned, %d refused, lengths (−want +got):\n%s", s.Planned, s.Refused, d)
	}
	if d := cmp.Diff([]string{"1 []", "2 []", "3 [0:1]", "5 []"}, bad); d != "" {
		t.Errorf("failures (−want +got):\n%s", d)
	}
	x.ask(t, "DELETE /v1/gpu/sessions/1", "", 200, nil)
	x.ask(t, "GET /v1/gpu/sessions/1", "", 404, nil)
	told := []string{
		"GPU session 1 (moe) was opened, of 4 GPUs",
		"GPU session 1 (moe): from now on frames are planned with bad NICs 0:1",
		"GPU session 1 (moe): frame 3, with bad NICs 0:1, sends 22 bytes a NIC in ",
		"GPU session 1 (moe): from now on frames are planned with all NICs and GPUs",
		"GPU session 1 (moe): frame 5, with all NICs and GPUs, sends 11 bytes a NIC in ",
		"GPU session 1 (moe) has ended",
	}
	for i, text := range told {
		if i >= len(x.told) || !strings.HasPrefix(x.told[i], text) {
			t.Fatalf("told: %q\nwant %q", x.told, told)
		}
	}
}

// formerly gives the times in a file the names that earlier versions wrote.
func formerly(t *testing.T, file string) {
	t.Helper()
	var text json.RawMessage
	if err := sealed.ReadFile(file, &text); err != nil {
		t.Fatal(err)
	}
	for _, name := range [][2]string{{"opened_at", "opened"}, {"asked_at", "asked"}, {"planned_at", "at"}} {
		if !bytes.Contains(text, []byte(`"`+name[0]+`":"`)) {
			t.Fatalf("no %s in %s", name[0], text)
		}
		text = bytes.ReplaceAll(text, []byte(`"`+name[0]+`":"`), []byte(`"`+name[1]+`":"`))
	}
	if err := os.WriteFile(file, sealed.Seal(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRestart checks that a restarted server continues its sessions and their numbering. If
// their file is damaged, no new session gets the number of a lost one.
func TestRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sessions.json")
	start := func() (*site, error) {
		x := newSite()
		return x, x.Keep(file)
	}
	x, err := start()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		x.ask(t, "POST /v1/gpu/sessions", `{"name":"moe","servers":2,"gpus_per_server":2}`, 200, nil)
	}
	x.ask(t, "DELETE /v1/gpu/sessions/3", "", 200, nil)
	x.ask(t, "POST /v1/gpu/sessions/1/frames", `{`+traffic+`}`, 200, nil)
	x.ask(t, "POST /v1/gpu/sessions/2/failures", `{"bad_nics":["0:1"]}`, 200, nil)
	x.ask(t, "POST /v1/gpu/sessions/1/frames", `{`+traffic+`}`, 200, nil)
	x.gpus.sessions[0].Shown.Asked = time.Now().Add(-mostIdle + time.Minute)
	if err := x.Save(); err != nil {
		t.Fatal(err)
	}
	var before, after GPUSession
	x.ask(t, "GET /v1/gpu/sessions/1", "", 200, &before)
	formerly(t, file)
	if x, err = start(); err != nil {
		t.Fatal(err)
	}
	x.ask(t, "GET /v1/gpu/sessions/1", "", 200, &after)
	if d := cmp.Diff(before, after, cmpopts.IgnoreFields(before, "Asked")); d != "" || len(after.Frames) != 2 || after.GPUs != 4 {
		t.Errorf("session 1 before and after (−want +got):\n%s", d)
	}
	if w := x.ask(t, "POST /v1/gpu/sessions/1/frames", `{`+traffic+`}`, 200, nil); w.Header().Get("Forsplan-Frame") != "3" {
		t.Errorf("the frame after two has the number %s", w.Header().Get("Forsplan-Frame"))
	}
	var r gpu.Report
	x.ask(t, "POST /v1/gpu/sessions/2/frames", `{`+traffic+`}`, 200, &r)
	if r.Length != 22 || len(x.told) != 1 || !strings.HasPrefix(x.told[0], "GPU session 2 (moe): frame 1, with bad NICs 0:1") {
		t.Errorf("with one NIC of server 0 the length is %d; told: %q", r.Length, x.told)
	}
	x.ask(t, "GET /v1/gpu/sessions/3", "", 404, nil)
	x.ask(t, "POST /v1/gpu/sessions", `{"servers":2,"gpus_per_server":1}`, 200, &after)
	if after.ID != 4 {
		t.Errorf("the session after 3 has the number %d", after.ID)
	}

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte("moe"), []byte("mob"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if x, err = start(); !errors.Is(err, sealed.ErrDamaged) {
		t.Errorf("a damaged file: %v", err)
	}
	x.path = filepath.Join(t.TempDir(), "none", "sessions.json")
	x.ask(t, "POST /v1/gpu/sessions", `{"servers":2,"gpus_per_server":1}`, 200, &after)
	if after.ID <= 4 || !strings.Contains(x.told[0], "a restart would forget that: ") {
		t.Errorf("after the loss of four sessions, session %d: %q", after.ID, x.told)
	}
}

// TestFailureOfASite checks that a NIC in a session of unequal servers can fail like any other.
func TestFailureOfASite(t *testing.T) {
	x := newSite()
	x.ask(t, "POST /v1/gpu/sessions", `{"mode":"bytes","site":{"servers":[{"gpus":2,"nics":[{"gpu":0,"speed":400},{"gpu":1,"speed":400}]},{"gpus":1,"nics":[{"gpu":0,"speed":400},{"gpu":0,"speed":400}]}]}}`, 200, nil)
	var lengths []int64
	for _, failed := range []string{`{}`, `{"bad_nics":["1:1"]}`, `{"bad_nics":["1:0:0","1:1:50"]}`, `{}`} {
		x.ask(t, "POST /v1/gpu/sessions/1/failures", failed, 200, nil)
		var r gpu.Report
		x.ask(t, "POST /v1/gpu/sessions/1/frames", `{"traffic":[[0,0,80],[0,0,20],[60,0,0]]}`, 200, &r)
		lengths = append(lengths, r.Length)
	}
	if d := cmp.Diff([]int64{50, 100, 100, 50}, lengths); d != "" {
		t.Errorf("lengths (−want +got):\n%s", d)
	}
	x.ask(t, "POST /v1/gpu/sessions/1/failures", `{"bad_nics":["1:2"]}`, 400, nil)
	x.ask(t, "POST /v1/gpu/sessions/1/failures", `{"dead_gpus":["1:1"]}`, 400, nil)
}

// TestRefuses checks that invalid settings are refused immediately, not with the next frame.
func TestRefuses(t *testing.T) {
	x := newSite()
	x.ask(t, "POST /v1/gpu/sessions", `{"servers":2,"gpus_per_server":2}`, 200, nil)
	for request, want := range map[string]string{
		`POST /v1/gpu/sessions {"servers":2,"gpus_per_server":2,"mode":"wild"}`:        `unknown mode \"wild\"`,
		`POST /v1/gpu/sessions {"servers":2,"gpus_per_server":2,"fabrik":true}`:        "unknown field",
		`POST /v1/gpu/sessions {"servers":2,"gpus_per_server":2,"fabric":true}`:        "was started without --forsd",
		`POST /v1/gpu/sessions {"servers":2,"gpus_per_server":2,"bad_nics":["2:0"]}`:   `does not exist: the 2 servers`,
		`POST /v1/gpu/sessions {"servers":2,"gpus_per_server":2,` + traffic + `}`:      "traffic comes with each frame",
		`POST /v1/gpu/sessions {"servers":2000,"gpus_per_server":2}`:                   "with 1024 GPUs at most",
		`POST /v1/gpu/sessions {"servers":4611686018427387905,"gpus_per_server":4}`:    "with 1024 GPUs at most",
		`POST /v1/gpu/sessions {"servers":"2","gpus_per_server":2}`:                    "cannot unmarshal string",
		`POST /v1/gpu/sessions {"name":"` + strings.Repeat("x", 65) + `","servers":2}`: "the name has more than 64 bytes",
		`POST /v1/gpu/sessions {"name":"a\nb","servers":2,"gpus_per_server":2}`:        "or control characters",
		`POST /v1/gpu/sessions {"name":"` + strings.Repeat(" ", openingBody) + `"}`:    "longer than",
		`POST /v1/gpu/sessions null`:                                      "want an object",
		`POST /v1/gpu/sessions/1/failures {"bad_nics":["0:2"]}`:           `does not exist: the 2 servers`,
		`POST /v1/gpu/sessions/1/failures {"nics":["0:1"]}`:               "unknown field",
		`POST /v1/gpu/sessions/7/failures {}`:                             "there is no session",
		`POST /v1/gpu/sessions/1/frames {"mode":"bytes","traffic":[[0]]}`: "does not come with a frame",
		`POST /v1/gpu/sessions/1/frames {"traffic":[[0,1],[1,0],[0]]}`:    "has 1 columns",
		`POST /v1/gpu/sessions/x/frames {"traffic":[[0,1],[1,0]]}`:        "there is no session",
		`GET /v1/gpu/sessions/-1 `:                                        "there is no session",
		`DELETE /v1/gpu/sessions/99 `:                                     "there is no session",
	} {
		where, body, _ := strings.Cut(request, " {")
		if body != "" {
			body = "{" + body
		} else if rest, is := strings.CutSuffix(where, " null"); is {
			where, body = rest, "null"
		}
		method, path, _ := strings.Cut(strings.TrimSpace(where), " ")
		w := httptest.NewRecorder()
		x.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		if w.Code < 400 || w.Code == 500 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.100s: %d %s\nwant %s", request, w.Code, w.Body, want)
		}
	}
}

// TestLimits checks the maximum numbers of sessions and remembered frames, and that idle
// sessions end.
func TestLimits(t *testing.T) {
	x := newSite()
	for range mostSessions {
		x.ask(t, "POST /v1/gpu/sessions", `{"servers":2,"gpus_per_server":1}`, 200, nil)
	}
	x.ask(t, "POST /v1/gpu/sessions", `{"servers":2,"gpus_per_server":1}`, 503, nil)
	x.gpus.sessions[3].Shown.Asked = time.Now().Add(-mostIdle)
	x.gpus.sessions[5].Shown.Asked = time.Now().Add(-mostIdle + time.Minute)
	var all GPUSessions
	x.ask(t, "GET /v1/gpu/sessions", "", 200, &all)
	if len(all.Sessions) != mostSessions-1 || x.told[len(x.told)-1] != "GPU session 4 has ended: no frame for 1h0m0s" {
		t.Errorf("%d sessions; %q", len(all.Sessions), x.told[len(x.told)-1])
	}
	s := &session[GPUSession]{}
	for n := range uint64(mostFrames + 5) {
		x.gpus.note(s, GPUFrame{Frame: Frame{Number: n}}, true)
	}
	if list := s.Shown.Frames; len(list) != mostFrames || list[0].Number != 5 {
		t.Errorf("%d frames from %d on", len(list), list[0].Number)
	}
}
