package forsplan

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/optical/ocs"
	"github.com/forsd/forsd/testbed/programs"
)

// TestInterrupted interrupts planners after they have announced on a terminal that they plan.
// Those that announce that Ctrl-C takes the best plan so far print it then; the others print
// nothing.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	d, err := ocs.Workload("moe", 1024, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	traffic, err := gpu.Generate(gpu.Cluster{Servers: 128, GPUs: 8}, gpu.Uniform, 1<<20, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"d.csv": rowsCSV(d.Racks(), func(i, j int) any { return d.At(i, j) }), "t.csv": trafficCSV(traffic)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args  string
		keeps bool
	}{
		{"ocs schedule --demand D --switches 4 --delta 0.01 --steps 1000000000", true},
		{"ocs schedule --demand D --switches 2 --delta 0.01 --steps 1000000000 --dead-port 0:1 --dead-port 1:2", false},
		{"ocs schedule --demand D --switches 4 --delta 0.01 --method eclipse", false},
		{"ocs online --demand D --switches 4 --delta 0.01 --period 9 --steps 1000000000", true},
		{"ocs online --demand D --switches 4 --delta 0.01 --period 9 --method fast", false},
		{"gpu schedule --traffic T --gpus-per-server 8 --mode minmove", false},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			behind, terminal := programs.Terminal(t)
			ctx, interrupt := context.WithCancel(t.Context())
			told := make(chan string)
			go func() {
				var text []byte
				for !bytes.Contains(text, []byte("planning")) {
					part := make([]byte, 100)
					n, err := behind.Read(part)
					if text = append(text, part[:n]...); err != nil {
						break
					}
				}
				interrupt()
				told <- string(text)
			}()
			var out bytes.Buffer
			root := Command()
			root.SetArgs(strings.Fields(strings.NewReplacer(" D ", " "+dir+"/d.csv ", " T ", " "+dir+"/t.csv ").Replace(c.args)))
			root.SetOut(&out)
			root.SetErr(terminal)
			err := root.ExecuteContext(ctx)
			_ = terminal.Close()
			text := <-told
			if says := strings.Contains(text, "; Ctrl-C takes the best so far"); says != c.keeps || !strings.Contains(text, "planning") {
				t.Errorf("the terminal is told %q", text)
			}
			if kept := out.Len() > 0; kept != c.keeps || err == nil {
				t.Errorf("%d bytes are printed: %v", out.Len(), err)
			}
		})
	}
}
