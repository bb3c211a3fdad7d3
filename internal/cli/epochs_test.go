package cli

import (
	"strings"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
)

// TestCauseOfAnEpoch checks that the loss of all cables of a spine makes one short line: it
// names three cables and counts the others.
func TestCauseOfAnEpoch(t *testing.T) {
	cables := []string{"a went down", "b went down", "c went down", "d went down", "e went down"}
	for n, want := range map[int]string{
		0: "",
		1: "a went down",
		3: "a went down; b went down; c went down",
		4: "a went down; b went down; c went down; and 1 more",
		5: "a went down; b went down; c went down; and 2 more",
	} {
		x := &api.Epoch{Epoch: 3, Length: phasetable.Summarize("exact", 378, 378).Length, What: cables[:n]}
		if got := why(x); got != want {
			t.Errorf("%d changes: the list says %q, want %q", n, got, want)
		}
		line := "3: 378 phases (bound 378), engine exact"
		if n > 0 {
			line += ": " + want
		}
		if got := epochText(x); got != line {
			t.Errorf("%d changes: the watch says %q, want %q", n, got, line)
		}
	}
	if got := why(&api.Epoch{RollbackOf: 2, What: cables}); strings.Contains(got, "more") {
		t.Errorf("a rollback is said to follow from %q", got)
	}
}
