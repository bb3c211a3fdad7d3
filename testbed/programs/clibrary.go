package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Output runs a command and returns its output.
func Output(t testing.TB, command string, args ...string) string {
	t.Helper()
	cmd := exec.Command(command, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// CLibrary is a C library in the folder of a test, by the name that its functions begin
// with: its header is NAME.h, its manual page NAME.3, its file libNAME.so.
type CLibrary string

func (l CLibrary) read(t testing.TB, suffix string) string {
	t.Helper()
	data, err := os.ReadFile(string(l) + suffix)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Functions lists the functions that the header exports: one for each NAME_API.
func (l CLibrary) Functions(t testing.TB) (names []string) {
	t.Helper()
	header, api := l.read(t, ".h"), strings.ToUpper(string(l))+"_API"
	for _, m := range regexp.MustCompile(`(?m)^`+api+` [^(]*?(`+string(l)+`_\w+)\(`).FindAllStringSubmatch(header, -1) {
		names = append(names, m[1])
	}
	declared := strings.Count(header, api) - strings.Count(header, "#define "+api)
	if slices.Sort(names); declared == 0 || len(names) != declared {
		t.Fatalf("%s.h says %s in %d places, and exports %v", l, api, declared, names)
	}
	return names
}

// CheckExports checks that the shared library in a folder exports the functions of the header,
// has the name of its first version, and needs libc and some others alone.
func (l CLibrary) CheckExports(t testing.TB, dir string, others ...string) {
	t.Helper()
	var exported []string
	file := filepath.Join(dir, "lib"+string(l)+".so")
	for line := range strings.Lines(Output(t, "nm", "-D", "--defined-only", file)) {
		if name, _, _ := strings.Cut(strings.Fields(line)[2], "@"); !strings.HasPrefix(name, strings.ToUpper(string(l))+"_1.") {
			exported = append(exported, name)
		}
	}
	slices.Sort(exported)
	if d := cmp.Diff(l.Functions(t), exported); d != "" {
		t.Errorf("functions (-header +library):\n%s", d)
	}
	dynamic := Output(t, "readelf", "-d", file)
	needed := strings.Count(dynamic, "[libc.so")
	for _, other := range others {
		needed += strings.Count(dynamic, "["+other+".so")
	}
	if !strings.Contains(dynamic, "soname: [lib"+string(l)+".so.1]") || strings.Count(dynamic, "(NEEDED)") != needed {
		t.Errorf("dynamic section:\n%s", dynamic)
	}
}

// CheckHeader compiles the header strictly, by itself, as C and as C++.
func (l CLibrary) CheckHeader(t testing.TB) {
	t.Helper()
	for _, language := range [][]string{{"c", "-std=c11"}, {"c", "-std=c2x"}, {"c++", "-std=c++11"}} {
		Output(t, "gcc", "-x", language[0], language[1], "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsyntax-only", string(l)+".h")
	}
}

// CheckPage checks that the manual page has every function and every code, and no others.
func (l CLibrary) CheckPage(t testing.TB) {
	t.Helper()
	page, header := l.read(t, ".3"), l.read(t, ".h")
	codes := regexp.MustCompile(`\b` + strings.ToUpper(string(l)) + `_E[A-Z]+\b`)
	check := func(find *regexp.Regexp, wanted []string) {
		inPage := find.FindAllString(page, -1)
		for _, name := range inPage {
			if !strings.Contains(header, name) {
				t.Errorf("%s.3 speaks of %s, which %s.h does not have", l, name, l)
			}
		}
		for _, name := range wanted {
			if !slices.Contains(inPage, name) {
				t.Errorf("%s.3 does not speak of %s", l, name)
			}
		}
	}
	check(regexp.MustCompile(`\b`+string(l)+`_[a-z]+(?:_[a-z]+)*\b`), l.Functions(t))
	check(codes, codes.FindAllString(header, -1))
}

// CheckNothingLeft checks that a folder has no files.
func CheckNothingLeft(t testing.TB, root string) {
	t.Helper()
	_ = filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.IsDir() {
			t.Errorf("uninstall leaves %s behind: %v", path, err)
		}
		return nil
	})
}
