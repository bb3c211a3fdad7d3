package command

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

// TestNextTime checks times on clocks that are put forward and back.
func TestNextTime(t *testing.T) {
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Fatal(err)
	}
	defer func(l *time.Location) { time.Local = l }(time.Local)
	time.Local = zurich
	for _, c := range []struct{ after, text, want string }{
		{"2027-03-27T12:00:00+01:00", "12:00", "2027-03-28T12:00:00+02:00"},
		{"2027-03-27T12:00:00+01:00", "12:00:00.25", "2027-03-27T12:00:00.25+01:00"},
		{"2027-03-28T01:59:00+01:00", "03:00", "2027-03-28T03:00:00+02:00"},
		{"2027-03-28T03:10:00+02:00", "02:30", "2027-03-29T02:30:00+02:00"},
		{"2027-03-28T01:59:00+01:00", "02:30", "show 2027-03-28 02:30:00 0 times"},
		{"2027-10-31T01:00:00+02:00", "03:00", "2027-10-31T03:00:00+01:00"},
		{"2027-10-31T02:40:00+02:00", "02:30", "2027-11-01T02:30:00+01:00"},
		{"2027-01-01T00:00:00Z", "2027-10-31 02:30", "show 2027-10-31 02:30:00 2 times"},
		{"2027-01-01T00:00:00Z", "2027-10-31T02:30:00+02:00", "2027-10-31T02:30:00+02:00"},
		{"2027-01-01T00:00:00Z", "2027-07-01 02:00:00.5", "2027-07-01T02:00:00.5+02:00"},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		got, err := NextTime(c.text, after)
		text := got.In(zurich).Format(time.RFC3339Nano)
		if err != nil {
			text = err.Error()
		}
		if text != c.want && !(err != nil && strings.Contains(text, c.want)) {
			t.Errorf("%s after %s: %s, want %s", c.text, c.after, text, c.want)
		}
	}
}

// TestDuration has times in weeks and days, seconds without a unit, and mistakes.
func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"2d": 48 * time.Hour, "90d": 90 * 24 * time.Hour, "1w": 168 * time.Hour, "1w2d3h": 219 * time.Hour, "5": 5 * time.Second, "1h30m": 90 * time.Minute, "-1s": -time.Second} {
		var d Duration
		if err := d.Set(text); err != nil || time.Duration(d) != want || d.Type() != "duration" || d.String() != want.String() {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "d", "2x", "1d1w", "1.5d", "2d-1h", "99999999w", "99999999999999999999d"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is read as %v", text, d)
		}
	}
}
