package ocs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// report is the report of a small schedule as a file.
func report(t testing.TB) []byte {
	t.Helper()
	d, err := Workload("benchmark", 6, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Make(bg, d, Options{Switches: 2, Delta: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReport(d, s, Fast)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadReport(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, back); d != "" {
		t.Fatalf("read back (-written +read):\n%s", d)
	}
	return data
}

// TestReadReportRefuses corrupts a report in every way that ReadReport checks.
func TestReadReportRefuses(t *testing.T) {
	good := string(report(t))
	for _, c := range []struct{ from, to, want string }{
		{`{"version"`, `["version"`, "read a schedule"},
		{`"version":1`, `"version":2`, "version is 2"},
		{`"racks":6`, `"racks":0`, "0 racks"},
		{`"delta":0.01`, `"delta":-1`, "delta is -1"},
		{`"makespan"`, `"makspan"`, "unknown field"},
		{`]}]}`, `]}]}{}`, "follows its end"},
	} {
		bad := strings.Replace(good, c.from, c.to, 1)
		if bad == good {
			t.Fatalf("%q is not in the report", c.from)
		}
		if _, err := ReadReport([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: %v, want %q", c.to, c.from, err, c.want)
		}
	}
}

// TestCheckReport corrupts the schedule of a report.
func TestCheckReport(t *testing.T) {
	good := string(report(t))
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""},
		{`"racks":6`, `"racks":7`, "joins 6 racks, want 7"},
		{`"delta":0.01`, `"delta":0.5`, "changing takes 0.5"},
		{`"weight":`, `"weight":-`, "want more than 0"},
	} {
		r, err := ReadReport([]byte(strings.Replace(good, c.from, c.to, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Check(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: %v, want %q", c.to, c.from, err, c.want)
		}
	}
}

// FuzzReadReport reads arbitrary input: accepted reports can be checked, and stay the same
// if written and read again.
func FuzzReadReport(f *testing.F) {
	f.Add(report(f))
	f.Add([]byte(`{"version":1,"racks":1,"delta":0,"switches":[{"load":0,"configs":[]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadReport(data)
		if err != nil {
			return
		}
		_ = r.Check() // must not panic
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ReadReport(again)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(r, back); d != "" {
			t.Fatalf("read back (-first +second):\n%s", d)
		}
	})
}
