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

// TestStatusFitsOneScreen has everything happen at once: 360 hosts gone, and a warning of
// each kind with a line for each of them.
func TestStatusFitsOneScreen(t *testing.T) {
	s := &api.Status{Epoch: 7, Base: &api.Epoch{}, Summary: phasetable.Summarize("exact", 359, 359), LastEvent: &api.LastEvent{SeenAt: time.Now()}}
	for i := range 360 {
		s.Baseline = append(s.Baseline, fmt.Sprintf("the host port Hca%04d is absent", i))
		s.LastEvent.What = append(s.LastEvent.What, fmt.Sprintf("Hca%04d appeared", i))
	}
	for i := range 40 {
		w := health.Warning{Code: fmt.Sprintf("w%d", i), Severity: health.Critical, Title: "Trouble", Text: strings.Join(s.Baseline, "; ")}
		if i > 2 {
			w.Severity, w.Text = health.Degraded, strings.Join(s.Baseline, "\n")
		}
		s.Warnings = append(s.Warnings, w)
	}
	var out strings.Builder
	if err := printStatus(&out, s, false); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n > 23 || !strings.Contains(out.String(), "and 36 more warnings: forsctl status --all\n") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	for line := range strings.Lines(out.String()) {
		if len([]rune(line)) > 200 {
			t.Errorf("a line of %d characters: %s", len([]rune(line)), line)
		}
	}
	out.Reset()
	if err := printStatus(&out, s, true); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n < 360*39 {
		t.Errorf("--all prints %d lines", n)
	}
}
