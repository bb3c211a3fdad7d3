// Command newcomer follows README.md in a fresh Debian 12, in a directory: it clones this
// repository there and runs README's commands in order. Those that need systemd or a fabric are
// run by testbed/vm, in its step "install". The output of the demo is compared with the tutorial.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/testbed/mend"
)

// sections of README.md have commands; those below "Watch first" are run in the guest as well.
var sections = []string{"Try it without hardware", "Watch first", "Install"}

// kinds are the places where commands are run, by their beginnings.
var kinds = []struct {
	begins string
	where  string
}{
	{"make demo", here}, {"make test", long}, {"go run ./cmd/forsctl acceptance", here},
	{"sudo apt-get install ", here}, {"printf ", here}, {"sudo sed -i ", here},
	{"sudo systemctl ", guest}, {"sudo forsctl ", guest},
}

const (
	here  = "here"
	long  = "with -test"
	guest = "in the guest of make vm-test"
)

// where returns the place where a command is run, or "" for an unknown one.
func where(command string) string {
	for _, k := range kinds {
		if strings.HasPrefix(command, k.begins) {
			return k.where
		}
	}
	return ""
}

func main() {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := flag.String("cache", filepath.Join(cache, "forsd", "newcomer"), "where the fresh Debian is kept")
	test := flag.Bool("test", false, "run make test, too")
	flag.Parse()
	command.Main("newcomer", func(ctx context.Context) error { return run(ctx, *dir, *test) })
}

func run(ctx context.Context, cache string, test bool) (err error) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "forsd-newcomer-")
	if err != nil {
		return err
	}
	root := filepath.Join(work, "root")
	netlist, err := os.Create(filepath.Join(work, "fabric.net"))
	if err != nil {
		return err
	}
	err = errors.Join(ibsim.WriteNetlist(netlist, fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4})), netlist.Close())
	if err == nil {
		_, err = shell(ctx, fresh, "cache="+cache, "root="+root, "work="+work)
	}
	defer func() {
		_, e := shell(context.WithoutCancel(ctx), leave, "root="+root, "work="+work)
		err = errors.Join(err, e)
	}()
	if err != nil {
		return fmt.Errorf("make a fresh Debian: %w", err)
	}
	for _, section := range sections {
		fmt.Println("# " + section)
		if section == "Watch first" {
			if _, err := inside(ctx, root, "make packages FORMATS=deb"); err != nil { // it is within the text
				return err
			}
		}
		for _, line := range mend.Commands(string(readme), section) {
			at := where(line)
			fmt.Printf("%-30s %s\n", at, line)
			if at == "" {
				return fmt.Errorf("README.md has a command that this program does not know: %s", line)
			}
			if at == guest || at == long && !test {
				continue
			}
			if strings.HasPrefix(line, "go run ./cmd/forsctl acceptance") {
				if _, err := inside(ctx, root, discover); err != nil {
					return err
				}
			}
			out, err := inside(ctx, root, line)
			if err == nil && strings.HasPrefix(line, "make demo") {
				err = shown(out)
			}
			if err != nil {
				return err
			}
		}
	}
	_, err = inside(ctx, root, "forsd --check && forsctl version")
	return err
}

// fresh makes a Debian with git, make, Go, and a clone of this repository.
const fresh = `set -e
if [ ! -e "$cache.done" ]; then
	rm -rf "$cache" && mkdir -p "$cache"
	debootstrap --variant=minbase --include=ca-certificates,git,make,procps,sudo bookworm "$cache" http://deb.debian.org/debian
	printf '#!/bin/sh\nexit 101\n' >"$cache/usr/sbin/policy-rc.d" && chmod 755 "$cache/usr/sbin/policy-rc.d"
	echo force-unsafe-io >"$cache/etc/dpkg/dpkg.cfg.d/fast"
	: >"$cache.done"
fi
cp -a "$cache" "$root"
cp /etc/resolv.conf "$root/etc/resolv.conf" # the network is that of this machine
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs"
cp "$work/fabric.net" "$root/tmp"
mkdir -p "$root/usr/local/go" "$root/root/go/pkg/mod" "$root/root/.cache/go-build"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --bind /dev "$root/dev"
mount --bind /dev/pts "$root/dev/pts"
mount --bind "$(go env GOROOT)" "$root/usr/local/go"
mount --bind "$(go env GOMODCACHE)" "$root/root/go/pkg/mod"
mount --bind "$(go env GOCACHE)" "$root/root/.cache/go-build"
git clone -q . "$root/root/forsd"`

// leave removes it.
const leave = `for at in root/.cache/go-build root/go/pkg/mod usr/local/go dev/pts dev sys proc; do
	! mountpoint -q "$root/$at" || umount "$root/$at" || exit 1
done
rm -rf --one-file-system "$work"`

// discover makes the files that the diagnostic tools write about a fabric.
const discover = `set -e
export IBSIM_SOCKNAME=newcomer
mkfifo /tmp/console
ibsim -s -N 400 -S 100 -P 4000 /tmp/fabric.net <>/tmp/console >/tmp/ibsim.log 2>&1 &
trap "kill $!" EXIT
export LD_PRELOAD=/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so SIM_HOST=Hca0000
until opensm -o -R minhop -f /tmp/opensm.log; do kill -0 $!; sleep 0.2; done
ibnetdiscover >fabric.txt
dump_fts >tables.dump`

// shell runs a script with variables.
func shell(ctx context.Context, script string, env ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	var out strings.Builder
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), io.MultiWriter(&out, os.Stdout), os.Stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, script)
	}
	return out.String(), err
}

// inside runs a command in the clone, as root at a terminal that answers yes.
func inside(ctx context.Context, root, line string) (string, error) {
	return shell(ctx, `cd "$root" && yes | chroot . env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -c "cd /root/forsd && $line"`, "root="+root, "line="+line)
}

// varying matches numbers and plurals, which differ from run to run.
var varying = regexp.MustCompile(`[-0-9. ,×]+|s\b`)

// shown fails if the demo's output lacks a line of the tutorial. Numbers may differ.
func shown(out string) error {
	tutorial, err := os.ReadFile("docs/tutorial.md")
	if err != nil {
		return err
	}
	printed, lines := map[string]bool{}, 0
	for line := range strings.Lines(out) {
		printed[varying.ReplaceAllString(strings.TrimSpace(line), "")] = true
	}
	_, demo, _ := strings.Cut(string(tutorial), "\n## The demo\n")
	demo, _, _ = strings.Cut(demo, "\n## ")
	for i, block := range strings.Split(demo, "```") {
		if i%2 == 0 || !strings.HasPrefix(block, "text\n") {
			continue
		}
		for line := range strings.Lines(strings.TrimPrefix(block, "text\n")) {
			line = strings.TrimSpace(line)
			if lines++; line != "…" && !printed[varying.ReplaceAllString(line, "")] {
				err = errors.Join(err, fmt.Errorf("docs/tutorial.md shows a line that the demo does not print: %s", line))
			}
		}
	}
	if lines < 10 {
		return fmt.Errorf("docs/tutorial.md shows %d lines of the demo's output", lines)
	}
	return err
}
