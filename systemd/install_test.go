package systemd

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// makeTarget runs make with programs that stand for the true ones, and without the
// C libraries, which have a test of their installation beside them.
func makeTarget(t *testing.T, target, out, dest string) {
	t.Helper()
	cmd := exec.Command("make", "-C", "..", "-o", "build", target, "out="+out, "DESTDIR="+dest, "prefix=/opt/forsd", "CLIBS=", "WITHILP=yes")
	cmd.Env = append(os.Environ(), "MAKEFLAGS=") // not those of make test
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make %s: %v\n%s", target, err, text)
	}
}

// filesIn lists the files below dir, but for texts, pictures and examples.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "figures" || d.Name() == "examples") {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".md") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// linksHold follows the links between installed documents.
func linksHold(t *testing.T, dir string) {
	t.Helper()
	documents, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents are installed: %v", err)
	}
	for _, doc := range documents {
		for _, m := range regexp.MustCompile(`\]\(([^)\s#:]+)[)#]`).FindAllStringSubmatch(read(t, doc), -1) {
			if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
				t.Errorf("%s links to %s, which is not installed", filepath.Base(doc), m[1])
			}
		}
	}
}

func TestInstall(t *testing.T) {
	out, dest := t.TempDir(), t.TempDir()
	for _, name := range []string{"forsd", "forsctl", "forsplan", "forsd-lpsolve", "forsd-rehearsal"} {
		if err := os.WriteFile(filepath.Join(out, name), []byte("#!/bin/sh\necho \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	makeTarget(t, "install", out, dest)
	want := []string{
		"etc/forsd/forsd.yaml",
		"opt/forsd/bin/forsctl",
		"opt/forsd/bin/forsd",
		"opt/forsd/bin/forsplan",
		"opt/forsd/lib/systemd/system/forsd.service",
		"opt/forsd/lib/systemd/system/opensm@.service.d/forsd.conf",
		"opt/forsd/lib/sysusers.d/forsd.conf",
		"opt/forsd/lib/udev/rules.d/70-forsd.rules",
		"opt/forsd/libexec/forsd/forsd-lpsolve",
		"opt/forsd/libexec/forsd/forsd-rehearsal",
		"opt/forsd/share/bash-completion/completions/forsctl",
		"opt/forsd/share/bash-completion/completions/forsplan",
		"opt/forsd/share/doc/forsd/LICENSE",
		"opt/forsd/share/doc/forsd/alertmanager/alertmanager.yml",
		"opt/forsd/share/doc/forsd/forsd.yaml",
		"opt/forsd/share/doc/forsd/forsplan.yaml",
		"opt/forsd/share/doc/forsd/grafana/forsd.json",
		"opt/forsd/share/doc/forsd/openapi.yaml",
		"opt/forsd/share/doc/forsd/opensm.conf.fragment",
		"opt/forsd/share/doc/forsd/prometheus/forsd.rules.test.yml",
		"opt/forsd/share/doc/forsd/prometheus/forsd.rules.yml",
		"opt/forsd/share/doc/forsd/prometheus/prometheus.yml",
		"opt/forsd/share/doc/forsd/slurm/epilog.sh",
		"opt/forsd/share/doc/forsd/slurm/prolog.sh",
		"opt/forsd/share/doc/forsd/slurm/task_prolog.sh",
		"opt/forsd/share/zsh/site-functions/_forsctl",
		"opt/forsd/share/zsh/site-functions/_forsplan",
	}
	if d := cmp.Diff(want, filesIn(t, dest)); d != "" {
		t.Errorf("installed (-want +got):\n%s", d)
	}
	linksHold(t, filepath.Join(dest, "opt/forsd/share/doc/forsd"))
	unit := read(t, filepath.Join(dest, "opt/forsd/lib/systemd/system/forsd.service"))
	for _, line := range []string{
		"ExecStart=/opt/forsd/bin/forsd --config /etc/forsd/forsd.yaml\n",
		"Documentation=file:///opt/forsd/share/doc/forsd/operating.md\n",
	} {
		if !strings.Contains(unit, line) {
			t.Errorf("the unit lacks %s", line)
		}
	}
	if !strings.HasPrefix(unit, "[Unit]\n") {
		t.Errorf("the unit begins with %.60q", unit)
	}

	conf := filepath.Join(dest, "etc/forsd/forsd.yaml")
	if err := os.WriteFile(conf, []byte("version: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	makeTarget(t, "install", out, dest)
	if got := read(t, conf); got != "version: 1\n" {
		t.Errorf("installing again changed the configuration to %.60q", got)
	}

	makeTarget(t, "uninstall", out, dest)
	if d := cmp.Diff([]string{"etc/forsd/forsd.yaml"}, filesIn(t, dest)); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
}

// TestInstallReplacesPlugin: what a running OpenSM has mapped stays as it is when the
// plugin is installed again.
func TestInstallReplacesPlugin(t *testing.T) {
	out, dest := t.TempDir(), t.TempDir()
	install := func(text string) {
		if err := os.WriteFile(filepath.Join(out, "libforsosm.so"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("make", "-C", "../opensm/plugin", "-o", "all", "install", "out="+out, "DESTDIR="+dest, "prefix=/usr")
		cmd.Env = append(os.Environ(), "MAKEFLAGS=")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	install("old")
	mapped, err := os.Open(filepath.Join(dest, "usr/lib/libforsosm.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	install("new")
	if text, err := io.ReadAll(mapped); err != nil || string(text) != "old" {
		t.Errorf("the file that is in use holds %q (%v)", text, err)
	}
	if text := read(t, mapped.Name()); text != "new" {
		t.Errorf("the file in its place holds %q", text)
	}
	if files := filesIn(t, dest); len(files) != 1 {
		t.Errorf("it leaves %q", files)
	}
}
