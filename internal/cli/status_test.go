package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/phasetable"
)

// TestStatusFitsOneScreen makes everything happen together: 360 hosts are gone, and there is a
// warning of each kind with a line for each host.
func TestStatusFitsOneScreen(t *testing.T) {
	s := &api.Status{Epoch: 7, Base: &api.Epoch{}, Summary: phasetable.Summarize("exact", 359, 359), LastEvent: &api.LastEvent{SeenAt: time.Now()}}
	for i := range 360 {
		s.Baseline = append(s.Baseline, fmt.Sprintf("the host port Hca%04d is absent", i))
		s.LastEvent.What = append(s.LastEvent.What, fmt.Sprintf("Hca%04d appeared", i))
	}
	for i := range 40 {
		w := api.Warning{Code: fmt.Sprintf("w%d", i), Severity: string(health.Critical), Title: "Trouble", Text: strings.Join(s.Baseline, "; "), Advice: "Mend it."}
		if i > 2 {
			w.Severity, w.Text = string(health.Degraded), strings.Join(s.Baseline, "\n")
		}
		s.Warnings = append(s.Warnings, w)
	}
	var out strings.Builder
	printStatus(&out, s, false)
	if n := strings.Count(out.String(), "\n"); n > 23 || strings.Count(out.String(), "\n  what to do: Mend it.\n") != 3 || !strings.Contains(out.String(), "and 37 more warnings: forsctl status --all\n") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	for line := range strings.Lines(out.String()) {
		if len([]rune(line)) > 200 {
			t.Errorf("a line of %d characters: %s", len([]rune(line)), line)
		}
	}
	out.Reset()
	printStatus(&out, s, true)
	if n := strings.Count(out.String(), "\n"); n < 360*39 {
		t.Errorf("--all prints %d lines", n)
	}
}

// TestStatusOfOneThatWatches checks that status shows the unpublished plan and the comparison.
func TestStatusOfOneThatWatches(t *testing.T) {
	s := &api.Status{State: "watching", Watches: true, Watched: &api.Watched{Plan: &api.Outlook{Summary: phasetable.Summarize("exact", 359, 359)},
		Shift: &api.Exchange{Phases: 359, Mean: 2.05, Throughput: 0.488}, Error: "the switch does not answer"}}
	var out strings.Builder
	printStatus(&out, s, false)
	for _, want := range []string{"writes nothing and does not signal", "359 phases (bound 359, gap 0), engine exact; not published", "2.05 transfers", "0.488", "does not answer"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	s.Watched = nil
	printStatus(&out, s, false)
	if !strings.Contains(out.String(), "none yet") {
		t.Errorf("%s", out.String())
	}
}
