package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/worker"
)

// maxExposure is the worst exposure that forsd.service may have by
// systemd-analyze security, in tenths.
const maxExposure = "20"

// dropIn is the drop-in for Debian's opensm@.service.
const dropIn = "opensm@.service.d/forsd.conf"

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// analyze runs systemd-analyze, which must exit with 0 and, if quiet, say nothing.
func analyze(t *testing.T, quiet bool, args ...string) {
	t.Helper()
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	if err != nil || quiet && len(out) > 0 {
		t.Errorf("systemd-analyze %s: %v (make deps installs it)\n%s", strings.Join(args, " "), err, out)
	}
}

// install writes a unit to dir with its programs replaced by one that exists.
func install(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, "/usr/bin/forsd", "/bin/true")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestServiceIsSound(t *testing.T) {
	unit := install(t, t.TempDir(), "forsd.service", read(t, "forsd.service"))
	analyze(t, true, "verify", "--recursive-errors=no", "--man=no", unit)
	analyze(t, false, "security", "--offline=yes", "--threshold="+maxExposure, unit)
}

func TestDropInIsSound(t *testing.T) {
	dir := t.TempDir()
	unit := install(t, dir, "opensm@.service", read(t, "/lib/systemd/system/opensm@.service"))
	install(t, dir, dropIn, read(t, dropIn))
	analyze(t, true, "verify", "--recursive-errors=no", "--man=no", unit)
}

// systemd-analyze verify only warns of a setting that it does not know. This
// holds the tests above to noticing one.
func TestMisspeltSettingIsNoticed(t *testing.T) {
	text := strings.Replace(read(t, "forsd.service"), "ProtectHome=", "ProtectHoem=", 1)
	unit := install(t, t.TempDir(), "forsd.service", text)
	out, err := exec.Command("systemd-analyze", "verify", "--recursive-errors=no", "--man=no", unit).CombinedOutput()
	if err == nil && len(out) == 0 {
		t.Error("systemd-analyze verify does not notice a misspelt setting")
	}
}

func TestUnitsAgreeWithDefaults(t *testing.T) {
	def := config.Default()
	for _, tt := range []struct{ file, text string }{
		{"forsd.service", " --config " + config.DefaultPath + "\n"},
		{"forsd.service", "\nStateDirectory=forsd forsd/opensm\n"},
		{"forsd.service", "\nRuntimeDirectory=forsd\n"},
		{"forsd.service", "\nExecStopPost=-/usr/bin/forsd --config " + config.DefaultPath + " --withdraw\n"},
	} {
		if !strings.Contains(read(t, tt.file), tt.text) {
			t.Errorf("%s lacks %q", tt.file, tt.text)
		}
	}
	for _, p := range []struct{ path, dir string }{
		{def.StateDir, "/var/lib/forsd"},
		{filepath.Dir(def.OpenSM.LFTsFile), "/var/lib/forsd/opensm"},
		{filepath.Dir(def.API.Socket), "/run/forsd"},
	} {
		if p.path != p.dir {
			t.Errorf("the program uses %s, the unit provides %s", p.path, p.dir)
		}
	}
}

// TestMemoryFits holds that forsd, whose collector is told a limit, and all processes that
// plan for others fit what the service may have.
func TestMemoryFits(t *testing.T) {
	size := func(name string) (bytes uint64) {
		t.Helper()
		m := regexp.MustCompile(`(?m)^(?:Environment=)?` + name + `=(\d+)Gi?B?$`).FindStringSubmatch(read(t, "forsd.service"))
		if m == nil {
			t.Fatalf("forsd.service does not set %s", name)
		}
		_, err := fmt.Sscan(m[1], &bytes)
		if err != nil {
			t.Fatal(err)
		}
		return bytes << 30
	}
	own, all, workers := size("GOMEMLIMIT"), size("MemoryMax"), worker.Defaults()
	const mostWorkers = 2 // Defaults leaves a core free, and has two at most
	if need := own + mostWorkers*workers.Memory; workers.Number > mostWorkers || need > all {
		t.Errorf("forsd with %d bytes and %d processes with %d take %d, and the service may have %d", own, max(workers.Number, mostWorkers), workers.Memory, need, all)
	}
}

func TestSysusersAndUdevAgreeWithService(t *testing.T) {
	unit, users, rules := read(t, "forsd.service"), read(t, "sysusers.d/forsd.conf"), read(t, "udev/70-forsd.rules")
	for _, tt := range []struct{ in, text string }{
		{unit, "\nUser=forsd\n"},
		{users, "\nu forsd "},
		{unit, "\nSupplementaryGroups=forsd-umad\n"},
		{users, "\ng forsd-umad "},
		{rules, `GROUP="forsd-umad"`},
		{unit, "\nDeviceAllow=char-infiniband_mad rw\n"},
	} {
		if !strings.Contains(tt.in, tt.text) {
			t.Errorf("no line with %q", tt.text)
		}
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	conf, err := filepath.Abs("sysusers.d/forsd.conf")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-sysusers", "--root="+root, conf).CombinedOutput(); err != nil {
		t.Fatalf("systemd-sysusers: %v\n%s", err, out)
	}
	if group := read(t, filepath.Join(root, "etc/group")); !strings.Contains(group, "forsd-umad:") {
		t.Errorf("groups made:\n%s", group)
	}
	if passwd := read(t, filepath.Join(root, "etc/passwd")); !strings.Contains(passwd, "forsd:") {
		t.Errorf("users made:\n%s", passwd)
	}
}
