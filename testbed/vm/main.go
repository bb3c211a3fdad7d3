// Command vm installs forsd's packages in a Debian 12 guest with a live systemd, OpenSM
// and a simulated fabric, and then exposes it to the events of a site: reboots, dead
// cables, crashes, an upgrade, a full disk, mistakes, removal. Each step prints its
// findings and its duration.
//
// The guest is made with debootstrap (script image) and kept in a cache; it runs under
// KVM if that works, otherwise in software.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
)

// options are the flags.
type options struct {
	cache, packages, previous, logs string
	leaves, spines                  int
	only                            string
}

func main() {
	runtime.LockOSThread() // see launch
	var o options
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	flag.StringVar(&o.cache, "cache", filepath.Join(cache, "forsd", "guest"), "where the guest's disk is kept")
	flag.StringVar(&o.packages, "packages", "dist", "directory of the packages to install")
	flag.StringVar(&o.previous, "previous", "", "directory of the packages to upgrade from; without it those of -packages with a lower version")
	flag.StringVar(&o.logs, "logs", "vm-logs", "where the guest's console and journal go")
	flag.IntVar(&o.leaves, "leaves", 6, "leaf switches of the simulated fabric")
	flag.IntVar(&o.spines, "spines", 8, "spine switches, and hosts on each leaf")
	flag.StringVar(&o.only, "only", "", "names of steps, separated by commas, that follow the installation, or empty for all of them")
	flag.Parse()
	command.Main("vm", o.run)
}

func (o *options) run(ctx context.Context) (err error) {
	began := time.Now()
	if o.logs, err = filepath.Abs(o.logs); err != nil {
		return err
	}
	if err := os.MkdirAll(o.logs, 0o755); err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(o.packages, "*.deb"))
	if err != nil || len(packages) == 0 {
		return fmt.Errorf("%s has no packages: run make packages", o.packages)
	}
	temporary, err := os.MkdirTemp("", "forsd-vm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	if err := o.image(ctx, packages); err != nil {
		return fmt.Errorf("make the guest's disk: %w", err)
	}
	data, err := o.data(ctx, temporary, packages)
	if err != nil {
		return fmt.Errorf("make the disk with the packages: %w", err)
	}
	fmt.Printf("%-22s %7.1f s  %s\n", "disks", time.Since(began).Seconds(), o.cache)

	start := time.Now()
	g, err := startGuest(ctx, o.cache, data, o.logs)
	if err != nil {
		return err
	}
	defer g.kill()
	fmt.Printf("%-22s %7.1f s  %s\n", "boot", time.Since(start).Seconds(), g.Accel)
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	s := &site{guest: g, leaves: o.leaves, spines: o.spines, readme: string(readme)}
	err = s.steps(ctx, o.only)
	if journal, e := g.run(ctx, 5*time.Minute, "journalctl --no-pager -o short-precise"); e == nil {
		err = errors.Join(err, os.WriteFile(filepath.Join(o.logs, "journal"), []byte(journal+"\n"), 0o644))
	}
	if err != nil {
		return fmt.Errorf("%w\nthe guest's console and journal are in %s", err, o.logs)
	}
	fmt.Printf("%-22s %7.1f s  %d steps hold\n", "total", time.Since(began).Seconds(), s.done)
	return nil
}

// image makes the guest's disk if it is missing, or was made by another script or for
// packages with other dependencies.
func (o *options) image(ctx context.Context, packages []string) error {
	sum := sha256.New()
	err := filepath.WalkDir("testbed/vm", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".go") {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s\n%s\n", path, data)
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range packages {
		needs, err := exec.CommandContext(ctx, "dpkg-deb", "-f", p, "Package", "Depends", "Recommends").Output()
		if err != nil {
			return fmt.Errorf("read %s: %w", p, err)
		}
		for line := range strings.Lines(string(needs)) {
			if !strings.Contains(line, "libfors1 (=") && !strings.Contains(line, "libforgpu1 (=") { // one of ours
				sum.Write([]byte(line))
			}
		}
	}
	key, stamp := fmt.Sprintf("%x\n", sum.Sum(nil)), filepath.Join(o.cache, "stamp")
	if had, _ := os.ReadFile(stamp); string(had) == key {
		return nil
	}
	_ = os.Remove(stamp)
	out, err := exec.CommandContext(ctx, "testbed/vm/image", append([]string{o.cache}, packages...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, out)
	}
	return os.WriteFile(stamp, []byte(key), 0o644)
}

// data makes the disk that the guest mounts at /media: the packages in dist, those to
// upgrade from in previous, the Ansible role, and the fabric.
func (o *options) data(ctx context.Context, dir string, packages []string) (string, error) {
	tree, disk := filepath.Join(dir, "data"), filepath.Join(dir, "data.img")
	for _, sub := range []string{"dist", "previous"} {
		if err := os.MkdirAll(filepath.Join(tree, sub), 0o755); err != nil {
			return "", err
		}
	}
	netlist, err := os.Create(filepath.Join(tree, "fabric.net"))
	if err != nil {
		return "", err
	}
	defer netlist.Close()
	if err := ibsim.WriteNetlist(netlist, fabgen.Generate(fabgen.Spec{Spines: o.spines, Leaves: o.leaves})); err != nil {
		return "", err
	}
	previous := `for p in "$@"; do dpkg-deb -R "$p" x && sed -i 's/^Version: /&0~/; s/(= /&0~/' x/DEBIAN/control && sed -i '/^$/d' x/DEBIAN/conffiles && dpkg-deb -Znone -b x "$tree/previous" && rm -rf x || exit 1; done`
	if o.previous != "" {
		previous = `cp "$previous"/*.deb "$tree/previous"`
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", `set -e; cp "$@" "$tree/dist"; cp -r "$ansible" "$tree"; `+previous+`; mke2fs -q -t ext4 -L forsd-data -d "$tree" "$disk" 256M`, "sh")
	for _, p := range packages {
		abs, err := filepath.Abs(p)
		if err != nil {
			return "", err
		}
		cmd.Args = append(cmd.Args, abs)
	}
	from, err := filepath.Abs(o.previous)
	if err != nil {
		return "", err
	}
	ansible, err := filepath.Abs("packaging/ansible")
	if err != nil {
		return "", err
	}
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "tree="+tree, "disk="+disk, "previous="+from, "ansible="+ansible)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w:\n%s", err, out)
	}
	return disk, nil
}
