package libforcarry

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/programs"
)

const library programs.CLibrary = "forcarry"

func TestHeaderAlone(t *testing.T) {
	t.Setenv("CPATH", "../libforgpu")
	library.CheckHeader(t)
}

func TestManPage(t *testing.T) { library.CheckPage(t) }

// The library is installed beside libforgpu, a program is linked with it by pkg-config, with the shared and with
// the static libraries, and both are removed.
func TestInstalled(t *testing.T) {
	programs.Needs(t, "make", "gcc", "pkg-config")
	dir := t.TempDir()
	out, root := filepath.Join(dir, "out"), filepath.Join(dir, "root")
	both := func(target string) {
		for _, folder := range []string{"../libforgpu", "."} {
			programs.Output(t, "make", "-s", "-C", folder, "CFLAGS=-O1 -Werror", "out="+out, "DESTDIR="+root, "prefix=/opt/fors", target)
		}
	}
	both("install")
	lib := filepath.Join(root, "opt/fors/lib")
	library.CheckExports(t, lib, "libforgpu", "libibverbs")
	t.Setenv("PKG_CONFIG_PATH", filepath.Join(lib, "pkgconfig"))
	t.Setenv("PKG_CONFIG_SYSROOT_DIR", root)
	for _, way := range [][]string{{"--libs"}, {"--static", "--libs"}} {
		flags := strings.Fields(programs.Output(t, "pkg-config", append(way, "--cflags", "forcarry")...))
		if len(way) > 1 {
			flags = append([]string{filepath.Join(lib, "libforcarry.a"), filepath.Join(lib, "libforgpu.a")}, flags...)
		}
		programs.Output(t, "gcc", append([]string{"-std=c11", "-D_GNU_SOURCE", "-o", filepath.Join(dir, "ranks"), "testdata/ranks.c"}, append(flags, "-libverbs", "-ldl")...)...)
	}
	both("uninstall")
	programs.CheckNothingLeft(t, root)
}
