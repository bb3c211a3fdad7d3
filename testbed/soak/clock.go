package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/forsd/forsd/testbed/built"
)

// buildSteppable builds forsd with a clock that can be stepped: the same program, but that
// what time.Now says of the day is moved by the seconds in a file, as an administrator or
// NTP moves the clock of a host. What timers go by is not moved, as on a host.
func buildSteppable(ctx context.Context, dir, file string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	module, err := built.Module(ctx)
	if err != nil {
		return "", err
	}
	source := filepath.Join(string(bytes.TrimSpace(root)), "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	moved := bytes.Replace(text, []byte(now), []byte(now+"\tsec += Stepped\n"), 1)
	if bytes.Equal(moved, text) {
		return "", fmt.Errorf("%s: time.Now does not begin as expected: the clock cannot be stepped", source)
	}
	moved = append(moved, "\n// Stepped is how far the clock has been moved, in seconds.\nvar Stepped int64\n"...)
	main := fmt.Sprintf(stepper, file)
	replace := map[string]string{
		source: filepath.Join(dir, "time.go"),
		filepath.Join(module, "cmd", "forsd", "stepped.go"): filepath.Join(dir, "stepped.go"),
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	for name, data := range map[string][]byte{"time.go": moved, "stepped.go": []byte(main), "overlay.json": overlay} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return "", err
		}
	}
	return built.Program(ctx, dir, "cmd/forsd", "-overlay", filepath.Join(dir, "overlay.json"))
}

// stepper is added to the program: it takes what the file says.
const stepper = `package main

import (
	"os"
	"strconv"
	"time"
)

func init() {
	step := func() {
		text, _ := os.ReadFile(%q)
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			time.Stepped = n
		}
	}
	step()
	go func() {
		for {
			time.Sleep(10 * time.Millisecond)
			step()
		}
	}()
}
`
