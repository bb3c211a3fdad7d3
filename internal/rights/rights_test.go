package rights

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// place makes a file below a directory with the given modes.
func place(t *testing.T, dirMode, fileMode fs.FileMode) (dir, file string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "dir")
	file = filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, nil, 0o600), os.Chmod(file, fileMode), os.Chmod(dir, dirMode)); err != nil {
		t.Fatal(err)
	}
	// t.TempDir's own directories deny access to others.
	for up := filepath.Dir(dir); up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir, file
}

func TestMay(t *testing.T) {
	group := uint32(os.Getegid())
	stranger := ID{Name: "stranger", UID: 4711, Groups: []uint32{4711}}
	member := ID{Name: "member", UID: 4711, Groups: []uint32{4711, group}}
	for _, c := range []struct {
		name      string
		id        ID
		dir, file fs.FileMode
		want      fs.FileMode
		err       string // "" if access is allowed
	}{
		{"all may read", stranger, 0o755, 0o644, Read, ""},
		{"a stranger may not write", stranger, 0o755, 0o644, Write, "lacks write permission"},
		{"the group may", member, 0o755, 0o660, Read | Write, ""},
		{"a stranger is not of the group", stranger, 0o755, 0o660, Read | Write, "lacks read and write permission"},
		{"a closed directory is in the way", stranger, 0o750, 0o644, Read, "is out of reach"},
		{"the group's bits count before the others'", member, 0o755, 0o604, Read, "lacks read permission"},
		{"root may do anything", ID{Name: "root"}, 0o700, 0o000, Read | Write, ""},
	} {
		_, file := place(t, c.dir, c.file)
		err := c.id.May(c.want, file)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
	dir, _ := place(t, 0o755, 0o644)
	if err := stranger.May(Read, filepath.Join(dir, "nobody")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := stranger.May(Read, link); err != nil {
		t.Errorf("through a link: %v", err)
	}
}

// TestExplained checks that the system's permission errors name the user, the permission and
// the file, and a command that grants it.
func TestExplained(t *testing.T) {
	stranger := ID{Name: "stranger", UID: 4711, Groups: []uint32{4711}}
	denied := func(op, path string) error {
		return fmt.Errorf("read it: %w", &fs.PathError{Op: op, Path: path, Err: syscall.EACCES})
	}
	for _, c := range []struct {
		name         string
		dir, file    fs.FileMode
		op           string
		lack, advice string // with DIR and FILE for the paths
	}{
		{"a directory that is closed", 0o700, 0o644, "open", "user stranger lacks search permission on DIR (drwx------, owner root, group root)", "run chmod o+x DIR, or setfacl -m u:stranger:x DIR"},
		{"a file that is closed", 0o755, 0o600, "open", "user stranger lacks read permission on FILE (-rw-------, owner root, group root)", "run chmod o+r FILE, or setfacl -m u:stranger:r FILE"},
		{"a file to be written", 0o755, 0o644, "open", "user stranger lacks write permission on FILE (-rw-r--r--, owner root, group root)", "run chown stranger FILE"},
		{"a file to be made", 0o755, 0, "mkdir", "user stranger lacks write permission on DIR (drwxr-xr-x, owner root, group root)", "run chown stranger DIR"},
	} {
		dir, file := place(t, c.dir, c.file)
		if c.file == 0 {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		l := stranger.Lacks(denied(c.op, file))
		if l == nil {
			t.Errorf("%s: nothing lacks", c.name)
			continue
		}
		names := strings.NewReplacer(file, "FILE", dir, "DIR")
		if os.Getuid() != 0 {
			c.lack = strings.NewReplacer("owner root", "owner "+userName(uint32(os.Getuid())), "group root", "group "+groupName(uint32(os.Getgid()))).Replace(c.lack)
		}
		if got := names.Replace(l.Error()); got != c.lack {
			t.Errorf("%s: %q, want %q", c.name, got, c.lack)
		}
		if got := names.Replace(l.Advice()); got != c.advice && os.Getgid() == 0 {
			t.Errorf("%s: %q, want %q", c.name, got, c.advice)
		}
	}
	// Through a group, if the file's group has the permission.
	l := &Lack{User: "forsd", Want: Read, Path: "/var/log/opensm.log", mode: 0o640, gid: 4}
	both := &Lack{User: "forsd", Want: Read | Search, Path: "/var/log", mode: fs.ModeDir | 0o700}
	if got := both.Advice(); got != "run chmod o+rx /var/log, or setfacl -m u:forsd:rx /var/log" {
		t.Errorf("a directory to be read: %q", got)
	}
	if got := l.Advice(); !l.ByGroup() || got != "run usermod -aG "+groupName(4)+" forsd; it counts for what the user starts from then on" {
		t.Errorf("by group: %q", got)
	}
	if _, file := place(t, 0o755, 0o644); stranger.Lacks(denied("open", file)) == nil || stranger.Lacks(errors.New("another error")) != nil || (&ID{}).Lacks(denied("open", file)) != nil {
		t.Error("an error without a lack is explained, or one with is not")
	}
	if err := errors.New("another"); !errors.Is(Explain(err), err) || Explain(err).Error() != err.Error() {
		t.Error("another error changes")
	}
}
