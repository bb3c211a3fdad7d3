package sessions

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/gpu"
)

// askGPU plans a request without a session, and returns the status and the answer.
func askGPU(t *testing.T, body string) (int, string) {
	t.Helper()
	a, err := newSite().planGPU(t.Context(), []byte(body), nil)
	w := httptest.NewRecorder()
	write(w, a, err)
	return w.Code, w.Body.String()
}

// TestGPUSchedule carries out the plan in the answer.
func TestGPUSchedule(t *testing.T) {
	traffic, err := gpu.Generate(gpu.Cluster{Servers: 3, GPUs: 4}, gpu.MoE, 1<<16, .6, 1)
	ok(t, err)
	var rows [][]int64
	for row := range slices.Chunk(traffic.Bytes, traffic.Ranks()) {
		rows = append(rows, row)
	}
	for _, mode := range []gpu.Mode{"", gpu.Bytes, gpu.Rails, gpu.MinMove, gpu.Paper, gpu.None} {
		body, err := json.Marshal(map[string]any{"traffic": rows, "gpus_per_server": 4, "mode": mode, "programs": true})
		ok(t, err)
		status, text := askGPU(t, string(body))
		if _, again := askGPU(t, string(body)); status != 200 || again != text {
			t.Fatalf("mode %s: %d %s; asked again, the answer is %s", mode, status, text, again)
		}
		var r gpu.Report
		ok(t, json.Unmarshal([]byte(text), &r))
		lengths, total := []int64{}, int64(0)
		for _, s := range r.Stages {
			lengths = append(lengths, s.Length)
			total += s.Length
		}
		ok(t, gpu.Replay(t.Context(), traffic, lengths, r.Programs))
		if r.Length != total || r.Bound != traffic.Bound() || r.PredictedSeconds <= 0 || mode != "" && r.Mode != mode {
			t.Errorf("mode %s: %+v in stages of %d", mode, r, total)
		}
	}
	// The lists of one rank are the same in the lists of all ranks.
	all, one := gpu.Report{}, gpu.Report{}
	_, text := askGPU(t, `{"routing":[[1,2],[3,4]],"token_bytes":5,"return":true,"gpus_per_server":1,"programs":true}`)
	ok(t, json.Unmarshal([]byte(text), &all))
	_, text = askGPU(t, `{"routing":[[1,2],[3,4]],"token_bytes":5,"return":true,"gpus_per_server":1,"rank":1}`)
	ok(t, json.Unmarshal([]byte(text), &one))
	if len(all.Programs) != 2 || len(one.Programs) != 1 || cmp.Diff(all.Programs[1], one.Programs[0]) != "" || one.Programs[0].Input != 10+20 {
		t.Errorf("of %+v, rank 1 has %+v", all.Programs, one.Programs)
	}
}

// TestGPUSite plans around failures, and checks the bound.
func TestGPUSite(t *testing.T) {
	for _, body := range []string{
		`{"traffic":[[0,0,8,0],[0,0,0,8],[1,0,0,0],[0,1,0,0]],"gpus_per_server":2,"bad_nics":["0:1"]}`,
		`{"traffic":[[0,0,8,0],[0,0,0,8],[1,0,0,0],[0,1,0,0]],"site":{"servers":[{"gpus":2,"nics":[{"gpu":0,"speed":4}]},{"gpus":2,"nics":[{"gpu":1,"speed":4},{"gpu":1,"speed":4}]}]}}`,
	} {
		status, text := askGPU(t, body)
		var r gpu.Report
		ok(t, json.Unmarshal([]byte(text), &r))
		if status != 200 || r.Bound != 16 || r.Length != 16 || r.Certificate == nil || r.Certificate.Channels != 1 || len(r.Places) == 0 {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

func TestGPUScheduleRefuses(t *testing.T) {
	for body, want := range map[string]string{
		`{"traffic":[[0,1],[1,0]],"gpus_per_server":1,"bad_nics":["0:0"]}`:       "no working NIC",
		`{"traffic":[[0,1],[1,0]],"gpus_per_server":1,"dead_gpus":["0"]}`:        "want SERVER:GPU",
		`{"traffic":[[0,1],[1,0]],"site":{"servers":[]}}`:                        "a site without servers",
		`{"traffic":[[0,1],[1,0]],"site":{"servers":[{"gpus":2}]},"rails":true}`: "rails does not go with it",
		``:                          "the request has no body",
		`{"gpus_per_server":1}`:     "traffic is missing",
		`{"traffic":[[0,1],[1,0]]}`: "gpus_per_server: 0 GPUs per server",
		`{"traffic":[[0,1],[1,0]],"gpus_per_server":3}`:                                 "2 GPUs do not fill servers of 3",
		`{"traffic":[[0,1],[1]],"gpus_per_server":1}`:                                   "row 2",
		`{"traffic":[[0,-1],[1,0]],"gpus_per_server":1}`:                                "-1",
		`{"traffic":[[0,0.5],[1,0]],"gpus_per_server":1}`:                               "0.5",
		`{"traffic":[[0,1]],"gpus_per_server":1}`:                                       "1 rows and 2 columns",
		`{"traffic":[],"gpus_per_server":1}`:                                            "empty",
		`{"traffic":[[0,1],[1,0]],"routing":[[1]],"gpus_per_server":1}`:                 "both given",
		`{"traffic":[[0,1],[1,0]],"token_bytes":1,"gpus_per_server":1}`:                 "go with routing",
		`{"routing":[[0,1],[1,0]],"gpus_per_server":1}`:                                 "0 bytes a token",
		`{"traffic":[[0,1],[1,0]],"gpus_per_server":1,"mode":"wild"}`:                   "unknown mode",
		`{"traffic":[[0,1],[1,0]],"gpus_per_server":1,"grain":-1}`:                      "grain -1",
		`{"traffic":[[0,1],[1,0]],"gpus_per_server":1,"max_stretch":0.1}`:               "stretch 0.1",
		`{"traffic":[[0,1],[1,0]],"gpus_per_server":1,"latency":"soon"}`:                "want a time",
		`{"traffic":[[0,1],[1,0]],"gpus_per_server":1,"budget":"long"}`:                 "want a time",
		`{"traffic":[[0,1],[1,0]],"gpus_per_server":1,"b2":0}`:                          "bandwidths of 1 to 1e18",
		`{"traffic":[[0,1],[1,0]],"gpus_per_server":1,"rank":2}`:                        "rank 2: want 0 to 1",
		`{"traffic":[[0,1],[1,0]],"gpus_per_server":1,"unknown":2}`:                     "unknown",
		`{"traffic":[` + strings.Repeat("[0],", gpuRanks) + `[0]],"gpus_per_server":1}`: "1025 GPUs: a session takes 1024 at most",
	} {
		if status, text := askGPU(t, body); status < 400 || status >= 500 || !strings.Contains(text, want) {
			t.Errorf("%.100s: %d %s, want an error with %q", body, status, text, want)
		}
	}
	// The plan has too many transfers for an answer.
	traffic, err := gpu.Generate(gpu.Cluster{Servers: 24, GPUs: 8}, gpu.Uniform, 1<<20, 0, 1)
	ok(t, err)
	var rows []string
	for row := range slices.Chunk(traffic.Bytes, traffic.Ranks()) {
		rows = append(rows, strings.Join(strings.Fields(fmt.Sprint(row)), ","))
	}
	status, text := askGPU(t, `{"traffic":[`+strings.Join(rows, ",")+`],"gpus_per_server":8,"mode":"paper"}`)
	if status != 400 || !strings.Contains(text, "more than 1048576 transfers: take a larger grain") {
		t.Errorf("a plan with a million transfers: %d %.300s", status, text)
	}
}

// ok fails the test on an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
