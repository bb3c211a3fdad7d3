package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/rdma"
)

// place makes a file below a directory with the given modes.
func place(t *testing.T, dirMode, fileMode fs.FileMode) (dir, file string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "dir")
	file = filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, nil, 0o600), os.Chmod(file, fileMode), os.Chmod(dir, dirMode)); err != nil {
		t.Fatal(err)
	}
	// t.TempDir's own directories are closed to others.
	for up := filepath.Dir(dir); up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir, file
}

func TestMay(t *testing.T) {
	group := uint32(os.Getegid())
	stranger := identity{name: "stranger", uid: 4711, groups: []uint32{4711}}
	member := identity{name: "member", uid: 4711, groups: []uint32{4711, group}}
	for _, c := range []struct {
		name      string
		id        identity
		dir, file fs.FileMode
		want      fs.FileMode
		err       string // "" where it is allowed
	}{
		{"all may read", stranger, 0o755, 0o644, readable, ""},
		{"a stranger may not write", stranger, 0o755, 0o644, writable, "lacks write permission"},
		{"the group may", member, 0o755, 0o660, readable | writable, ""},
		{"a stranger is not of the group", stranger, 0o755, 0o660, readable | writable, "lacks read and write permission"},
		{"a closed directory is in the way", stranger, 0o750, 0o644, readable, "is out of reach"},
		{"the group's bits count before the others'", member, 0o755, 0o604, readable, "lacks read permission"},
		{"root may do anything", identity{name: "root"}, 0o700, 0o000, readable | writable, ""},
	} {
		_, file := place(t, c.dir, c.file)
		err := c.id.may(c.want, file)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
	dir, _ := place(t, 0o755, 0o644)
	if err := stranger.may(readable, filepath.Join(dir, "nobody")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := stranger.may(readable, link); err != nil {
		t.Errorf("through a link: %v", err)
	}
}

func TestCheckDevices(t *testing.T) {
	active := rdma.Port{Number: 1, LID: 7, State: "ACTIVE", PhysState: "LinkUp", Rate: "200 Gb/sec (4X HDR)", LinkLayer: "InfiniBand"}
	down := rdma.Port{Number: 2, State: "DOWN", PhysState: "Polling", LinkLayer: "InfiniBand", Umad: "umad1", ISSM: "issm1"}
	ethernet := rdma.Port{Number: 1, State: "ACTIVE", LinkLayer: "Ethernet"}
	gone := active
	gone.Umad = "umad-that-is-not-there"
	for _, c := range []struct {
		name    string
		devices []rdma.Device
		err     error
		want    []finding
	}{
		{"none", nil, nil, []finding{{"rdma", warn, "no RDMA devices on this machine"}}},
		{"what was not read", nil, errors.New("mlx5_0: state\nmlx5_1: state"), []finding{{"rdma", warn, "mlx5_0: state; mlx5_1: state"}, {"rdma", warn, "no RDMA devices"}}},
		{"down", []rdma.Device{{Name: "mlx5_0", Ports: []rdma.Port{down}}}, nil,
			[]finding{{"rdma", warn, "mlx5_0 port 2 (InfiniBand, firmware none) is DOWN, Polling, , LID 0, umad node umad1, issm node issm1: check its cable"}, {"umad", fail, "no InfiniBand port"}}},
		{"without umad", []rdma.Device{{Name: "mlx5_0", Firmware: "20.1", Ports: []rdma.Port{active}}}, nil,
			[]finding{{"rdma", warn, "umad node none, issm node none: load the module ib_umad"}, {"umad", fail, "no InfiniBand port"}}},
		{"umad node missing", []rdma.Device{{Name: "mlx5_0", Ports: []rdma.Port{gone}}}, nil,
			[]finding{{"rdma", warn, "install 70-forsd.rules"}, {"umad", fail, "no InfiniBand port"}}},
		{"Ethernet", []rdma.Device{{Name: "mlx5_2", Ports: []rdma.Port{ethernet}}}, nil,
			[]finding{{"umad", fail, "no InfiniBand port is active and can be used (1 Ethernet port does not count)"}}},
	} {
		d := doctor{config: config.Default(), user: &identity{name: "forsd", uid: 4711}}
		d.checkDevices(c.devices, c.err)
		if len(d.Checks) != len(c.want) {
			t.Errorf("%s: %+v", c.name, d.Checks)
			continue
		}
		for i, w := range c.want {
			if got := d.Checks[i]; got.Check != w.Check || got.Grade != w.Grade || !strings.Contains(got.Text, w.Text) {
				t.Errorf("%s: %+v, want %+v", c.name, got, w)
			}
		}
	}
}
