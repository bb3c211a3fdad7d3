package forsplan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/gpu"
)

// trafficCSV writes traffic as forsplan gpu generate does.
func trafficCSV(t *gpu.Traffic) []byte {
	return rowsCSV(t.Ranks(), func(i, j int) any { return t.Bytes[i*t.Ranks()+j] })
}

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

// TestGPUScheduleJSON checks the fields of the answer against the plan's figures.
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

// TestGPUTopKShapes plans the same choices in the array shapes that are in common use.
func TestGPUTopKShapes(t *testing.T) {
	// Two GPUs with two tokens each, two choices of four experts.
	choices := []uint16{0, 3, 2, 3, 0, 1, 1, 0}
	bfloat := []uint16{0, 0x4040, 0x4000, 0x4040, 0, 0x3f80, 0x3f80, 0}
	array := func(descr, shape string, entries ...[]uint16) []byte {
		out := []byte("\x93NUMPY\x01\x00")
		head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", descr, shape)
		out = append(binary.LittleEndian.AppendUint16(out, uint16(len(head))), head...)
		for _, v := range slices.Concat(entries...) {
			out = binary.LittleEndian.AppendUint16(out, v)
		}
		return out
	}
	file := filepath.Join(t.TempDir(), "topk.npy")
	run := func(data []byte, args ...string) (string, string) {
		t.Helper()
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var out, messages bytes.Buffer
		Run(append([]string{"gpu", "schedule", "--topk", file, "--servers", "2", "--gpus-per-server", "1", "--experts", "4", "--token-bytes", "16", "--programs", "-"}, args...), &out, &messages)
		return out.String(), messages.String()
	}
	want, _ := run(array("<u2", "4, 2", choices))
	if want == "" {
		t.Fatal("no plan")
	}
	once, _ := run(array("<u2", "8, 1", choices))
	if out, messages := run(array("<u2", "8,", choices)); once == "" || out != once {
		t.Errorf("one choice a token, in one dimension: %s%s\nwant %s", out, messages, once)
	}
	others := make([]uint16, len(choices))
	for what, got := range map[string]func() (string, string){
		"a GPU each":     func() (string, string) { return run(array("<u2", "2, 2, 2", choices)) },
		"bfloat16":       func() (string, string) { return run(array("<V2", "4, 2", bfloat)) },
		"a layer":        func() (string, string) { return run(array("<i2", "3, 4, 2", others, choices, others), "--slice", "1") },
		"the last layer": func() (string, string) { return run(array("<i2", "2, 4, 2", others, choices), "--slice", "1") },
	} {
		if out, messages := got(); out != want {
			t.Errorf("%s: %s%s\nwant %s", what, out, messages, want)
		}
	}
	for message, got := range map[string]func() (string, string){
		"the array has 3 × 4 rows: say by --slice which layer or step is meant": func() (string, string) {
			return run(array("<i2", "3, 4, 2", others, choices, others))
		},
		"--slice 3: the array has 3": func() (string, string) { return run(array("<i2", "3, 4, 2", others, choices, others), "--slice", "3") },
	} {
		if _, messages := got(); !strings.Contains(messages, message) {
			t.Errorf("want %q: %s", message, messages)
		}
	}
}
