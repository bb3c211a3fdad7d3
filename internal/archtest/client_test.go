package archtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A client in another module: it reads a phase table, plans for GPUs, and queries forsd.
const (
	clientModule = `module example.org/client

go 1.26

require github.com/forsd/forsd v0.0.0

replace github.com/forsd/forsd => %s
`
	clientProgram = `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/phasetable"
)

func main() {
	traffic, err := gpu.Generate(gpu.Cluster{Servers: 2, GPUs: 2}, gpu.Uniform, 1<<10, 0, 1)
	if err != nil {
		panic(err)
	}
	plan, err := new(gpu.Planner).Plan(context.Background(), traffic, gpu.Options{Mode: gpu.Bytes, Model: gpu.DefaultModel})
	if err != nil {
		panic(err)
	}
	_, tableErr := phasetable.Decode(nil)
	client, err := api.Dial(os.Args[1])
	if err != nil {
		panic(err)
	}
	_, statusErr := client.Status(context.Background())
	fmt.Println(len(plan.Report(gpu.DefaultModel).Stages) > 0, tableErr != nil, statusErr != nil)
}
`
)

// TestAnotherModuleBuilds builds and runs a client in a separate module, without a network.
func TestAnotherModuleBuilds(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": fmt.Sprintf(clientModule, root), "main.go": clientProgram, "go.sum": string(sums)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", ".", filepath.Join(dir, "no-forsd"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-trimpath", "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "true true true\n" {
		t.Errorf("the client says %q (%v)", out, err)
	}
}
