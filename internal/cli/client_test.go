package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/forsd/forsd/internal/rights"
)

// TestUnreached checks that the error explains each cause that keeps a client from forsd's
// socket, and the remedy.
func TestUnreached(t *testing.T) {
	dir := t.TempDir()
	for up := dir; up != os.TempDir(); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dial := func(path string) error {
		c, err := net.Dial("unix", path)
		if err == nil {
			err = c.Close()
		}
		return err
	}
	stale := filepath.Join(dir, "stale")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	group, err := user.LookupGroup("daemon")
	if err != nil {
		t.Fatal(err)
	}
	gid := 0
	_, _ = fmt.Sscan(group.Gid, &gid)
	if err := errors.Join(l.Close(), os.Chmod(stale, 0o660)); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(stale, 0, gid); err != nil {
			t.Fatal(err)
		}
	}
	anna := &rights.ID{Name: "anna", UID: 4711, Groups: []uint32{4711}}
	denied := fmt.Errorf("ask forsd at %s: %w", stale, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)})
	for _, c := range []struct {
		addr string
		err  error
		want string
	}{
		{stale, dial(stale), "connection refused: forsd ended without removing its socket: run systemctl restart forsd"},
		{filepath.Join(dir, "none"), dial(filepath.Join(dir, "none")), "no such file or directory: forsd is not running, see systemctl status forsd, or it listens elsewhere: --server names its socket"},
		{"http://10.0.0.1:7480", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "no forsd listens there: it is not running, or api.listen in its forsd.yaml is another address"},
		{"unix:" + stale, denied, "user anna is not in the group daemon, or was not when this session began: use sudo, or run sudo usermod -aG daemon anna and log in again"},
		{"http://10.0.0.1:7480", errors.New("no route to host"), "no route to host"},
	} {
		if c.err == nil {
			t.Errorf("%s can be reached", c.addr)
			continue
		}
		if os.Getuid() != 0 && errors.Is(c.err, syscall.EACCES) {
			continue // only root can give the socket to a group
		}
		err := unreached(anna, c.addr, c.err)
		if !strings.HasSuffix(err.Error(), c.want) && !strings.Contains(err.Error(), c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: %q lacks %q", c.addr, err, c.want)
		}
	}
	if err := unreached(anna, stale, nil); err != nil {
		t.Errorf("reached: %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unreached(anna, stale, denied); !strings.Contains(err.Error(), "user anna lacks search permission on "+dir) || !strings.HasSuffix(err.Error(), ": use sudo") {
		t.Errorf("a closed directory: %v", err)
	}
}
