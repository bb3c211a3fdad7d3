package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPages writes every page and has man format it, as it would be read: it finds nothing
// to warn of.
func TestPages(t *testing.T) {
	t.Chdir("../..")
	dir := t.TempDir()
	if err := write(dir, "1.2.3", "2026-11-22"); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "man?", "*"))
	if err != nil || len(pages) < 40 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, page := range append(pages, "mpi/libfors/fors.3") {
		cmd := exec.Command("man", "--warnings", "-l", "-P", "cat", page)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANWIDTH=80", "MAN_KEEP_FORMATTING=", "MANROFFOPT=")
		var complaints strings.Builder
		cmd.Stderr = &complaints
		text, err := cmd.Output()
		if err != nil || complaints.Len() > 0 {
			t.Errorf("%s: %v (make deps installs man)\n%s", filepath.Base(page), err, &complaints)
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"} {
			if !strings.Contains(string(text), "\n"+section+"\n") && (section != "SYNOPSIS" || filepath.Base(page) != "forsd.yaml.5" && filepath.Base(page) != "forsd-warnings.7") {
				t.Errorf("%s has no section %s", filepath.Base(page), section)
			}
		}
		if !utf8.Valid(text) {
			t.Errorf("%s is not in UTF-8", filepath.Base(page))
		}
		for _, wrong := range []string{"[=false]", "%!", "\\f", "--help"} {
			if strings.Contains(string(text), wrong) {
				t.Errorf("%s shows %q", filepath.Base(page), wrong)
			}
		}
	}
}

// TestComplaint holds TestPages to noticing what is wrong.
func TestComplaint(t *testing.T) {
	page := filepath.Join(t.TempDir(), "bad.1")
	if err := os.WriteFile(page, []byte(".TH BAD 1\n.NOSUCHMACRO\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var complaints strings.Builder
	cmd := exec.Command("man", "--warnings", "-l", "-P", "cat", page)
	cmd.Stderr = &complaints
	if _, err := cmd.Output(); err != nil || complaints.Len() == 0 {
		t.Errorf("man finds nothing wrong: %v", err)
	}
}
