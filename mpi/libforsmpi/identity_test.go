package libforsmpi

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestIdentity checks how a process identifies the server that it runs on, from ports as
// Linux shows them and from the environment.
func TestIdentity(t *testing.T) {
	needs(t)
	ports := t.TempDir()
	for path, gid := range map[string]string{
		"mlx5_0/ports/1/gids/0": "fe80:0000:0000:0000:0002:c903:00a1:b2c3\n",
		"mlx5_1/ports/1/gids/0": "fe80:0000:0000:0000:0000:0000:0000:0000\n", // never configured
		"mlx5_1/ports/2/gids/0": "fec0:0000:0000:0001:f452:1403:0020:fe61\n",
		"mlx5_2/ports/1/gids/0": "something else\n",
	} {
		path = filepath.Join(ports, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(gid), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := compile(t, "mpicc", "-D_GNU_SOURCE", "-I../libfors", "-DSYSFS="+strconv.Quote(ports), "testdata/identity.c", "src/identity.c", "src/settings.c")
	servers := write(t, "servers", []byte("# a comment\n\n  node7 mlx5_0\t\r\nnode8\n"))
	for _, c := range []struct{ env, want string }{
		{"FORS_SERVER=", "0 host 0x0002c90300a1b2c3 0xf45214030020fe61\n"},
		{"FORS_SERVER=node7 mlx5_%l", "1 node7 mlx5_0\n"},
		{"FORS_SERVER=n%03r%%%r", "1 n000%0\n"},
		{"FORS_SERVER=%s", "2 FORS_SERVER=%s has a % before something else than h, r, l or %\n"},
		{"FORS_SERVER=%", "2 FORS_SERVER=% has a % before something else than h, r, l or %\n"},
		{"FORS_SERVER=%999999999999r", "2 FORS_SERVER=%999999999999r is too long\n"},
		{"FORS_SERVER_MAP=" + servers, "1 node7 mlx5_0\n"},
		{"FORS_SERVER_MAP=/none", "2 FORS_SERVER_MAP=/none cannot be read\n"},
		{"FORS_SERVER_MAP=/dev/null", "2 FORS_SERVER_MAP=/dev/null has no line for this rank\n"},
	} {
		out, stderr := job{ranks: 1, env: []string{c.env}, command: []string{program}}.run(t)
		if out != c.want || stderr != "" {
			t.Errorf("%s: %q, errors %q, want %q", c.env, out, stderr, c.want)
		}
	}
}
