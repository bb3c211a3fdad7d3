// Package built builds the module's own programs, for tests and demonstrations. It must
// run within the module.
package built

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// UmadHeader belongs to libibumad-dev.
const UmadHeader = "/usr/include/infiniband/umad.h"

// Module is the module's directory.
func Module(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// Program builds a command, named by its path below the module, into a directory and
// returns the program's path. If libibumad-dev is installed, the program reads switches
// itself. Flags are further ones of go build.
func Program(ctx context.Context, dir, command string, flags ...string) (string, error) {
	name := filepath.Join(dir, filepath.Base(command))
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-buildvcs=false", "-o", name}, flags...)...)
	cgo := "0"
	if _, err := os.Stat(UmadHeader); err == nil {
		cmd.Args, cgo = append(cmd.Args, "-tags", "umad"), "1"
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	cmd.Args = append(cmd.Args, "github.com/forsd/forsd/"+command)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", filepath.Base(command), err, out)
	}
	return name, nil
}

// Make runs make in a directory of the module, with the results in dir.
func Make(ctx context.Context, source, dir string, args ...string) error {
	module, err := Module(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "make", append([]string{"-s", "-C", filepath.Join(module, source), "out=" + dir}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}
