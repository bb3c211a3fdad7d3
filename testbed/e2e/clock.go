package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/forsd/forsd/testbed/built"
)

// clockFile, in a site's directory, sets the clock of a forsd of BuildSteppable; clockVariable
// has its path.
const (
	clockFile     = "clock"
	clockVariable = "FORSD_CLOCK"
)

// SetClock sets the clock of a forsd of BuildSteppable ahead by some seconds, or stops it.
func (s *Site) SetClock(ahead int, stands bool) error {
	text, file := strconv.Itoa(ahead), filepath.Join(s.dir, clockFile)
	if stands {
		text += " stands"
	}
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// BuildSteppable builds forsd with a clock that can be stepped and stopped, by SetClock: the same
// program, except that the time of day of time.Now is moved by the seconds in a file, as an
// administrator or NTP moves the clock of a host, or stands still if the file says so. Timers
// are not moved, as on a host.
func BuildSteppable(ctx context.Context, dir string) (string, error) {
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
	moved := bytes.Replace(text, []byte(now), []byte(now+"\tif Stands == 0 {\n\t\tsec += Stepped\n\t} else {\n\t\tsec, nsec = Stands, 0\n\t}\n"), 1)
	if bytes.Equal(moved, text) {
		return "", fmt.Errorf("%s: time.Now does not begin as expected: the clock cannot be stepped", source)
	}
	moved = append(moved, "\n// Stepped is how far the clock has been moved, in seconds, and Stands the time at which it stands, 0 where it goes.\nvar Stepped, Stands int64\n"...)
	replace := map[string]string{
		source: filepath.Join(dir, "time.go"),
		filepath.Join(module, "cmd", "forsd", "stepped.go"): filepath.Join(dir, "stepped.go"),
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	for name, data := range map[string][]byte{"time.go": moved, "stepped.go": []byte(stepper), "overlay.json": overlay} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return "", err
		}
	}
	return built.Program(ctx, dir, "cmd/forsd", "-overlay", filepath.Join(dir, "overlay.json"))
}

// stepper is added to the program: it steps the clock as the file says.
const stepper = `package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

func init() {
	step := func() {
		text, _ := os.ReadFile(os.Getenv("` + clockVariable + `"))
		number, stands, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil || stands != "" && time.Stands != 0:
			return
		case stands != "":
			time.Stands = time.Now().Unix()
		default:
			time.Stepped, time.Stands = n, 0
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
