package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forsd/forsd/topology"
)

// TestOddServers checks that forsctl reports answers that are not from a forsd, and exits.
func TestOddServers(t *testing.T) {
	page := func(n int, next string) string {
		entry := `{"id":"r-1","kind":"epoch","data":{"epoch":1},"happened_at":"2030-01-01T00:00:00Z"}`
		return fmt.Sprintf(`{"entries":[%s],"next":%q}`, strings.Repeat(entry+",", n-1)+entry, next)
	}
	var asked atomic.Int64
	for name, c := range map[string]struct {
		args   []string
		answer func() string
		want   string
	}{
		"a drain without its cost":   {[]string{"drain", "Spine001", "--yes"}, func() string { return `{"drains":[]}` }, "does not say what it would cost"},
		"the same page again":        {[]string{"history", "--limit", "0"}, func() string { return page(3, "x") }, "does not go on"},
		"empty pages":                {[]string{"history", "--limit", "0", "--csv"}, func() string { return fmt.Sprintf(`{"entries":[],"next":"%d"}`, asked.Load()) }, "does not go on"},
		"pages without end":          {[]string{"history", "--limit", "0", "--json"}, func() string { return page(1000, fmt.Sprint(asked.Load())) }, "more than 100000 entries"},
		"a report of the same pages": {[]string{"report", "--json"}, func() string { return page(3, "x") }, "does not go on"},
		"a report without end":       {[]string{"report", "--json"}, func() string { return page(1000, fmt.Sprint(asked.Load())) }, "more than 100000 entries"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			answer := c.answer()
			switch r.URL.Path {
			case "/v1/history", "/v1/drains":
			case "/v1/baseline":
				answer = fmt.Sprintf(`{"version":%d,"leaves":[],"spines":[]}`, topology.BaselineVersion)
			default:
				answer = "{}"
			}
			_, _ = w.Write([]byte(answer))
		}))
		out, code := invoke(append(c.args, "--server", s.URL)...)
		s.Close()
		if code == 0 || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, %.300s, want %q", name, code, out, c.want)
		}
	}
	// An answer larger than requested is refused.
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page(500, "x"))) }))
	defer s.Close()
	if out, code := invoke("history", "--limit", "7", "--server", s.URL); code != 0 || strings.Count(out, "\n") != 7 {
		t.Errorf("7 entries: exit code %d, %d lines", code, strings.Count(out, "\n"))
	}
}
