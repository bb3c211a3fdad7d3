package configs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSlurmSettings looks for the scripts that forsd.conf names.
func TestSlurmSettings(t *testing.T) {
	conf, err := os.ReadFile("slurm/forsd.conf")
	if err != nil {
		t.Fatal(err)
	}
	scripts := regexp.MustCompile(`(?m)^(PrologSlurmctld|EpilogSlurmctld|TaskProlog)=/usr/libexec/forsd/(.*)$`).FindAllStringSubmatch(string(conf), -1)
	for _, s := range scripts {
		if info, err := os.Stat(filepath.Join("slurm", s[2])); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s: %s is no script (%v)", s[1], s[2], err)
		}
	}
	if len(scripts) != 3 {
		t.Errorf("%d settings", len(scripts))
	}
}

// TestSlurmScripts runs the prolog, the epilog and the task prolog with a forsctl that says
// what it is asked, and fails: Slurm must not hear of that.
func TestSlurmScripts(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "forsctl"), []byte("#!/bin/sh\necho \"$@ $FORSD_SERVER\"\nexit 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ script, env, want string }{
		{"prolog.sh", "", "slurm prolog --timeout 5s"},
		{"epilog.sh", "", "slurm epilog --timeout 5s"},
		{"task_prolog.sh", "", "slurm task-prolog --timeout 5s http://head:7480"},
		{"task_prolog.sh", "FORSD_SERVER=/run/s", "slurm task-prolog --timeout 5s /run/s"},
	} {
		cmd := exec.Command("sh", filepath.Join("slurm", c.script))
		cmd.Env = append(strings.Fields(c.env), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("%s with %q: %v, runs forsctl %q, want %q", c.script, c.env, err, got, c.want)
		}
	}
}
