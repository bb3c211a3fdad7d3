package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/mend"
)

// TestEveryCommandIsRun checks that the newcomer or the guest runs each command that README.md
// has, and that a command of another kind is found.
func TestEveryCommandIsRun(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	run := 0
	for _, section := range sections {
		for _, line := range mend.Commands(string(text), section) {
			if run++; where(line) == "" {
				t.Errorf("below %s: %s is not run", section, line)
			}
			if where(line) == guest && section == sections[0] {
				t.Errorf("below %s: %s is run in the guest, which does not know that section", section, line)
			}
		}
	}
	written := 0
	for _, block := range regexp.MustCompile("(?s)\n```sh\n(.*?)\n```").FindAllStringSubmatch(string(text), -1) {
		written += len(strings.Split(block[1], "\n"))
	}
	if run != written || run < 10 {
		t.Errorf("README.md has %d commands, and %d are run", written, run)
	}
	if where("make install") != "" {
		t.Error("a command that is not run is said to be")
	}
}
