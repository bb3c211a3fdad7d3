package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/forsd/forsd/gpu"
)

// TestGPUScheduleSameBytes plans the same traffic 100 times.
func TestGPUScheduleSameBytes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.csv")
	traffic, err := gpu.Generate(gpu.Cluster{Servers: 5, GPUs: 4}, gpu.Zipf, 1<<20, .9, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, trafficCSV(traffic), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--json"}, {"--out", "-"}, {"--programs", "-", "--mode", "paper", "--grain", "65536"}} {
		var first []byte
		for i := range 100 {
			var out, messages bytes.Buffer
			if code := Run(append([]string{"gpu", "schedule", "--traffic", file, "--gpus-per-server", "4"}, args...), &out, &messages); code != 0 {
				t.Fatalf("%v: exit %d: %s", args, code, &messages)
			}
			if i == 0 {
				first = out.Bytes()
			} else if !bytes.Equal(first, out.Bytes()) {
				t.Fatalf("%v: run %d differs from the first", args, i+1)
			}
		}
	}
}

// TestGPUScheduleJSON holds the fields of the answer to the plan's own arithmetic.
func TestGPUScheduleJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.csv")
	traffic, err := gpu.Generate(gpu.Cluster{Servers: 4, GPUs: 8}, gpu.MoE, 1<<16, .7, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, trafficCSV(traffic), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, mode := range gpu.Modes {
		var out, messages bytes.Buffer
		if code := Run([]string{"gpu", "schedule", "--traffic", file, "--gpus-per-server", "8", "--mode", string(mode), "--json"}, &out, &messages); code != 0 {
			t.Fatalf("mode %s: exit %d: %s", mode, code, &messages)
		}
		var r struct {
			Length, Bound int64
			Stages        []struct {
				Length    int64
				Transfers []struct{ From, To, Bytes int64 }
			}
			MovesBefore      *int64   `json:"moves_before"`
			MovesAfter       *int64   `json:"moves_after"`
			PredictedSeconds *float64 `json:"predicted_seconds"`
		}
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r.Bound != traffic.Bound() || r.Length < r.Bound || r.MovesBefore == nil || r.MovesAfter == nil || r.PredictedSeconds == nil || *r.PredictedSeconds <= 0 {
			t.Errorf("mode %s: %s", mode, out.String()[:300])
		}
		between, sent, length := int64(0), int64(0), int64(0)
		for _, v := range traffic.Pairs() {
			between += v
		}
		for i, s := range r.Stages {
			busy := map[[2]int64]bool{}
			length += s.Length
			for _, x := range s.Transfers {
				sent += x.Bytes
				if x.Bytes > s.Length || busy[[2]int64{0, x.From}] || busy[[2]int64{1, x.To}] {
					t.Fatalf("mode %s: stage %d has %+v, a NIC twice or too many bytes", mode, i, x)
				}
				busy[[2]int64{0, x.From}], busy[[2]int64{1, x.To}] = true, true
			}
		}
		if sent != between || length != r.Length {
			t.Errorf("mode %s: %d bytes in stages of %d, want %d in %d", mode, sent, length, between, r.Length)
		}
	}
}
