package configs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// recorder stands for forsctl: it notes its arguments, and knows one job.
const recorder = `#!/bin/sh
echo "$@" >>"$CALLS"
case "$*" in
"job show slurm-7 --id") echo 43 ;;
"job show"*|"job rm slurm-9") exit 2 ;;
esac
`

// TestSlurmScripts runs the prolog, the epilog and the task prolog with a forsctl
// that notes what it is asked.
func TestSlurmScripts(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "forsctl"), []byte(recorder), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		script, env string
		calls, out  []string
	}{
		{"prolog.sh", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=node[1-2] SLURM_JOB_END_TIME=4102444800",
			[]string{"job rm slurm-7", "job create --nodes node[1-2] --name slurm-7 --lease *s"}, nil},
		{"prolog.sh", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=node1", []string{"job rm slurm-7", "job create --nodes node1 --name slurm-7"}, nil},
		{"prolog.sh", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=node1 SLURM_JOB_END_TIME=Unknown", []string{"job rm slurm-7", "job create --nodes node1 --name slurm-7"}, nil},
		{"prolog.sh", "SLURM_JOB_ID=7", nil, nil},
		{"prolog.sh", "SLURM_JOB_NODELIST=node1", nil, nil},
		{"epilog.sh", "SLURM_JOB_ID=7", []string{"job rm slurm-7"}, nil},
		{"epilog.sh", "SLURM_JOB_ID=9", []string{"job rm slurm-9"}, nil},
		{"task_prolog.sh", "SLURM_JOB_ID=7 FORSD_SERVER=http://a:1", []string{"job show slurm-7 --id"}, []string{"export FORSD_JOB=43", "export FORSD_TABLE=http://a:1"}},
		{"task_prolog.sh", "SLURM_JOB_ID=7 FORSD_SERVER=/run/s", []string{"job show slurm-7 --id"}, []string{"export FORSD_JOB=43", "export FORSD_TABLE=unix:/run/s"}},
		{"task_prolog.sh", "SLURM_JOB_ID=8", []string{"job show slurm-8 --id"}, nil},
	} {
		calls := filepath.Join(dir, "calls")
		_ = os.Remove(calls) // of the script before
		cmd := exec.Command("sh", filepath.Join("slurm", c.script))
		cmd.Env = append(strings.Fields(c.env), "PATH="+dir+":"+os.Getenv("PATH"), "CALLS="+calls)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s with %s: %v", c.script, c.env, err)
		}
		if got := strings.TrimSpace(string(out)); got != strings.Join(c.out, "\n") {
			t.Errorf("%s with %s prints %q, want %q", c.script, c.env, got, c.out)
		}
		text, err := os.ReadFile(calls)
		if err != nil && (len(c.calls) > 0 || !errors.Is(err, fs.ErrNotExist)) {
			t.Fatal(err)
		}
		got := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
		if len(got) != len(c.calls) {
			t.Errorf("%s with %s asks %q, want %q", c.script, c.env, got, c.calls)
			continue
		}
		for i, want := range c.calls {
			head, tail, _ := strings.Cut(want, "*")
			if !strings.HasPrefix(got[i], head) || !strings.HasSuffix(got[i], tail) || tail == "" && got[i] != head {
				t.Errorf("%s with %s asks %q, want %q", c.script, c.env, got, c.calls)
				break
			}
		}
	}
}
