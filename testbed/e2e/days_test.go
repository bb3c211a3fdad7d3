package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/authority"
	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/mend"
)

// TestBadDays breaks a site in many ways, and mends it each time by nothing but the output of
// forsctl and the documents.
func TestBadDays(t *testing.T) {
	t.Parallel()
	o, dir := byPlugin(t, small()), t.TempDir()
	certificate, key := filepath.Join(dir, "forsd.pem"), filepath.Join(dir, "forsd.key")
	o.Config = fmt.Sprintf("  tls: {listen: %q, certificate: %q, key: %q}\n%scables: {%s}\n", freeAddress(t), certificate, key, steady, hurried)
	o.Conf = map[string]string{"honor_guid2lid_file": "TRUE"}
	x := newSite(t, 10*time.Minute, o)
	certified := func(left time.Duration) error {
		_, pem, private := authority.New(t, "authority").Issue(t, "forsd", time.Now().Add(left))
		return errors.Join(os.WriteFile(key, private, 0o600), os.WriteFile(certificate, pem, 0o600))
	}
	x.ok(certified(time.Hour), os.MkdirAll(x.StateDir(), 0o755))
	if err := syscall.Mount("fors", x.StateDir(), "tmpfs", 0, "size=32m"); err != nil {
		t.Fatalf("this test mounts a file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(x.StateDir(), syscall.MNT_DETACH) })
	x.ok(x.Start(x.ctx))
	x.loaded()
	healthy := x.check()
	leaf, spine := healthy.Tree.Leaves[2], healthy.Tree.Spines[1].Name
	port := int(leaf.Cables[2].LeafPort)
	operator := x.operator(dir)
	misspelt := func() error {
		text, err := os.ReadFile(x.ConfigFile())
		return errors.Join(err, os.WriteFile(x.ConfigFile(), append(text, "planing: {}\n"...), 0o644))
	}
	for _, day := range []struct {
		name, code string
		breaks     func() error
		hand       func() error // does the work that commands cannot do
	}{
		{"OpenSM is killed", "opensm-not-running", func() error { x.SM.Kill(); return nil }, nil},
		{"the disk is full", "state-not-durable", func() error {
			x.fill(x.StateDir())
			return x.Sim.Unlink(x.ctx, leaf.Name, port)
		}, nil},
		{"a cable is dead", "cable-down", func() error { return nil }, func() error { return x.Sim.Relink(x.ctx, leaf.Name, port) }},
		{"a cable is bad", "cable-suspect", func() error { return x.Sim.SetCounter(x.ctx, leaf.Name, port, "PortCounters.SymbolErrorCounter", 1000) }, func() error { return nil }},
		{"a spine is gone", "spine-down", func() error { return x.Sim.UnlinkNode(x.ctx, spine) }, func() error { return x.Sim.RelinkNode(x.ctx, spine) }},
		{"the certificate has expired", "expired", func() error { return certified(-time.Hour) }, nil},
		{"the configuration is broken", "configuration-refused", func() error { return errors.Join(misspelt(), syscall.Kill(x.Forsd.PID(), syscall.SIGHUP)) }, nil},
		{"forsd does not start", "configuration-refused", func() error {
			err := errors.Join(misspelt(), x.KillForsd(x.ctx), x.StartForsd())
			<-x.Forsd.Done()
			return err
		}, nil},
	} {
		x.ok(day.breaks())
		if day.name != "forsd does not start" {
			x.warned(day.code)
		}
		operator.Hand = func(string) error { return day.hand() }
		ran, err := operator.Mend(x.ctx, day.code)
		t.Logf("%s:\n%s", day.name, strings.Join(ran, "\n"))
		if err != nil {
			t.Fatalf("%s: %v", day.name, err)
		}
		x.until(day.name+" no longer", func(st *api.Status) bool { return !HasWarning(st, day.code) })
		x.settled(nil)
		x.check()
	}
	x.until("all is well", func(st *api.Status) bool { return len(st.Warnings) == 0 })
}

// operator is at a shell that finds the site's programs. The site has no service manager: the
// test does the work of systemctl.
func (x *test) operator(dir string) *mend.Operator {
	x.Helper()
	forsctl, err := built.Program(x.ctx, dir, "cmd/forsctl")
	x.ok(err)
	bin := filepath.Join(dir, "bin")
	x.ok(os.Mkdir(bin, 0o755))
	for name, script := range map[string]string{
		"sudo":    `exec "$@"`,
		"forsd":   fmt.Sprintf(`exec %s --config %s "$@"`, x.options.Forsd, x.ConfigFile()),
		"forsctl": fmt.Sprintf(`case $1 in doctor) set -- "$@" --config %s; esac; exec %s --server %s "$@"`, x.ConfigFile(), forsctl, x.Socket()),
	} {
		x.ok(os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	run := func(ctx context.Context, script string) (string, error) {
		switch script {
		case "sudo systemctl restart opensm":
			return "", x.SM.Restart(ctx)
		case "sudo systemctl reload-or-restart forsd":
			select {
			case <-x.Forsd.Done():
				return "", x.StartForsd()
			default:
				return "", syscall.Kill(x.Forsd.PID(), syscall.SIGHUP)
			}
		}
		cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", script)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w:\n%s", err, out)
		}
		return string(out), err
	}
	return &mend.Operator{Run: run, Docs: "../../docs"}
}
