package tiers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/worker"
)

func TestPhotonicRequests(t *testing.T) {
	h := handler("POST /v1/optical/photonic")
	for _, c := range []struct {
		body   string
		status int
		want   string // in the answer
	}{
		// R = 7T: two topologies with waiting take 28T.
		{`{"gpus":8,"reconfig_us":7,"message_mb":0.1,"alpha_us":0,"method":"carry"}`, 200, `"reconfigurations":2,"hop_sum":14,`},
		{`{"gpus":8,"reconfig_us":7,"message_mb":0.1,"alpha_us":0,"method":"paper"}`, 200, `"cost_us":30,`},
		{`{"matrix":[[0,1e6,0],[0,0,2e6],[5e5,0,0]],"reconfig_us":1}`, 200, `"messages":3,`},
		{`{"matrix":[[7,0],[0,7]]}`, 200, `"reconfigurations":0,`},
		{``, 400, "no body"},
		{`{"gpus":8,"reconfigure":1}`, 400, "unknown field"},
		{`{"reconfig_us":1}`, 400, "plan 0 GPUs"},
		{`{"gpus":8,"degree":99}`, 400, "degree from 1 to 16"},
		{`{"gpus":8,"method":"best"}`, 400, `no method \"best\"`},
		{`{"gpus":8,"reconfig_us":-1}`, 400, "reconfig_us -1"},
		{`{"gpus":8,"reconfigurations":8}`, 400, "want from 1 to 7"},
		{`{"matrix":[[0,1],[1]]}`, 400, "row 2 has 1 column"},
		{`{"matrix":[[0,-1],[1,0]]}`, 400, "-1"},
		{`{"matrix":[]}`, 400, ""},
		{`{"matrix":[` + strings.Repeat(" ", photonicRequest) + `]}`, 413, "longer than"},
	} {
		status, answer := ask(t.Context(), h, c.body)
		if status != c.status || !strings.Contains(answer, c.want) {
			t.Errorf("%.80s: %d %.200s, want %d with %s", c.body, status, answer, c.status, c.want)
		}
	}
}

// TestTierTurns has another task at work: a request waits for its turn, and is told
// when its time is up.
func TestTierTurns(t *testing.T) {
	l := worker.Defaults()
	l.Number, l.Brief = 1, 0
	p := worker.NewPool(l)
	h := Handlers(p, nil)["POST /v1/optical/photonic"]
	occupied, leave := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- p.Run(occupied, "sleep", func(io.Writer) error { close(begun); return nil }, nil)
	}()
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	status, answer := ask(ctx, h, `{"gpus":8}`)
	cancel()
	var e api.Error
	if err := json.Unmarshal([]byte(answer), &e); err != nil || status != http.StatusConflict || e.Code != api.CodeRefused {
		t.Errorf("%d %s (%v), want 409 refused", status, answer, err)
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if status, answer := ask(t.Context(), h, `{"gpus":8}`); status != http.StatusOK {
		t.Errorf("with turns free again: %d %s", status, answer)
	}
}
