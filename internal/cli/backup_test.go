package cli

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// kept is a machine whose forsd is backed up and restored.
type kept struct {
	t   *testing.T
	dir string
}

func (k *kept) path(name string) string { return filepath.Join(k.dir, name) }

func (k *kept) put(name, text string, mode fs.FileMode) {
	k.t.Helper()
	if err := os.WriteFile(k.path(name), []byte(text), mode); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Chmod(k.path(name), mode); err != nil {
		k.t.Fatal(err)
	}
}

// is fails unless a file has the given text and mode.
func (k *kept) is(name, text string, mode fs.FileMode) {
	k.t.Helper()
	data, err := os.ReadFile(k.path(name))
	if err != nil {
		k.t.Error(err)
		return
	}
	if info, err := os.Stat(k.path(name)); err != nil || string(data) != text || info.Mode().Perm() != mode {
		k.t.Errorf("%s is %q with mode %v, want %q with %v", name, data, info.Mode().Perm(), text, mode)
	}
}

func (k *kept) run(args ...string) {
	k.t.Helper()
	if out, code := invoke(args...); code != 0 {
		k.t.Fatalf("%s: exit code %d: %s", args, code, out)
	}
}

// TestBackupSecrets checks that only the owner can read secrets: in the archive, in the
// restored files, and in the files that those replace. Drains, decisions and tokens come back.
// A token that was revoked after the backup does not.
func TestBackupSecrets(t *testing.T) {
	k := &kept{t, t.TempDir()}
	config := fmt.Sprintf("version: 1\nstate_dir: %s\nopensm: {conf: %s, cache_dir: %s}\napi: {socket: %s}\n", k.dir, k.path("opensm.conf"), k.dir, k.path("s"))
	k.put("forsd.yaml", config, 0o600)
	k.put("opensm.conf", "m_key 0x1234\n", 0o600)
	k.put("decisions.json", "drains", 0o644)
	k.put("tokens.json", "tokens", 0o600)
	archive := k.path("b.tar.gz")
	k.put("b.tar.gz", "an older one", 0o644)
	k.run("backup", "--config", k.path("forsd.yaml"), "--out", archive)
	if info, err := os.Stat(archive); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive: %v, %v", info.Mode(), err)
	}
	k.put("forsd.yaml", config+"# changed\n", 0o644)
	k.put("opensm.conf", "m_key 0x5678\n", 0o600)
	k.put("decisions.json", "later", 0o600)
	k.put("tokens.json", "one was revoked", 0o600)
	k.run("restore", archive, "--opensm", "--config", k.path("forsd.yaml"))
	k.is("forsd.yaml", config, 0o600)
	k.is("forsd.yaml.before-restore", config+"# changed\n", 0o644)
	k.is("opensm.conf", "m_key 0x1234\n", 0o600)
	k.is("opensm.conf.before-restore", "m_key 0x5678\n", 0o600)
	k.is("decisions.json", "drains", 0o600)
	k.is("decisions.json.before-restore", "later", 0o600)
	k.is("tokens.json", "one was revoked", 0o600)
	if err := os.Remove(k.path("tokens.json")); err != nil {
		t.Fatal(err)
	}
	k.run("restore", archive, "--config", k.path("forsd.yaml"))
	k.is("tokens.json", "tokens", 0o600)
}

// TestArchiveBomb checks that archives with a high compression ratio, or with other contents,
// are refused before they use memory.
func TestArchiveBomb(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		size  int
		want  string
	}{
		"one large file": {[]string{"forsd.yaml"}, 300 << 20, "more than 64 MiB"},
		"large together": {[]string{"forsd.yaml", "guid2lid"}, 40 << 20, "more than 64 MiB"},
		"other files":    {[]string{"movie"}, 1 << 20, `it holds "movie"`},
	} {
		a := newArchive()
		zeros := make([]byte, c.size)
		for _, f := range c.files {
			if err := a.add(&tar.Header{Name: f, Mode: 0o600, ModTime: time.Now()}, zeros); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(t.TempDir(), "b.tar.gz")
		if err := a.write(&cobra.Command{}, path, ""); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := unpack(path)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 512 {
			t.Errorf("%s: an archive of %d bytes took %d MB", name, a.Len(), mb)
		}
	}
}

// invoke runs forsctl and returns its output and its exit code.
func invoke(args ...string) (out string, code int) {
	var all strings.Builder
	code = Run(args, &all, &all)
	return all.String(), code
}
