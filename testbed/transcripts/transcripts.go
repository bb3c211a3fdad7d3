// Package transcripts replays the transcripts of pure state machines, for their tests.
package transcripts

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Block answers a block of a transcript.
type Block func(t *testing.T, d *datadriven.TestData) string

// Run replays every file of testdata, each on a machine of its own that begin makes. The
// flag -rewrite rewrites the answers.
func Run(t *testing.T, begin func(t *testing.T) Block) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			block := begin(t)
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string { return block(t, d) })
		})
	}
}

// Events answers the blocks called "events", of which each line is an event. Lines that
// begin with # are comments.
func Events(event func(t *testing.T, line string, out *strings.Builder)) Block {
	return func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "events" {
			t.Fatalf("%s: unknown directive %q", d.Pos, d.Cmd)
		}
		var out strings.Builder
		for line := range strings.Lines(d.Input) {
			if !strings.HasPrefix(line, "#") {
				event(t, strings.TrimSpace(line), &out)
			}
		}
		return out.String()
	}
}
