package command

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// days matches weeks and days at the beginning of a duration such as 1w2d12h.
var days = regexp.MustCompile(`^(?:(\d+)w)?(?:(\d+)d)?(.*)$`)

// ParseDuration parses a duration such as 90s, 1h30m, 2d or 1w.
func ParseDuration(text string) (time.Duration, error) {
	m := days.FindStringSubmatch(text)
	rest := m[3]
	if rest == "" && m[1]+m[2] != "" {
		rest = "0s"
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 && m[1]+m[2] != "" {
		return 0, fmt.Errorf("%q is not a time: want such as 90s, 1h30m, 2d or 1w", text)
	}
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour} {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i+1], 10, 64)
		if err != nil || n > int64((math.MaxInt64-d)/unit) {
			return 0, fmt.Errorf("%q is too long a time", text)
		}
		d += time.Duration(n) * unit
	}
	return d, nil
}

// Duration is a flag for a duration in the format of ParseDuration. A bare number means
// seconds.
type Duration time.Duration

// Set parses a value.
func (d *Duration) Set(text string) error {
	if strings.TrimLeft(text, "0123456789") == "" {
		text += "s"
	}
	parsed, err := ParseDuration(text)
	*d = Duration(parsed)
	return err
}

// String returns the value in Go's format.
func (d *Duration) String() string { return time.Duration(*d).String() }

// Type returns pflag's name of the type, so that GetDuration reads such flags.
func (d *Duration) Type() string { return "duration" }

// NextTime parses a time in an operator's notation. A time without a date is the next such time
// after the given one. An empty text yields the zero time.
func NextTime(text string, after time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, form := range []string{time.DateTime, "2006-01-02 15:04"} {
		if t, err := time.Parse(form, text); err == nil {
			return local(t)
		}
	}
	clock, err := time.Parse("15:04", text)
	if err != nil {
		clock, err = time.Parse(time.TimeOnly, text) // also accepts a fraction of a second
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time: want such as 02:00, 2026-07-01 02:00, or 2026-07-01T02:00:00Z", text)
	}
	after = after.Local()
	t := time.Date(after.Year(), after.Month(), after.Day(), clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), time.UTC)
	if after.Format(clockTime) >= t.Format(clockTime) {
		t = t.AddDate(0, 0, 1)
	}
	return local(t)
}

// clockTime is the layout of a time on local clocks; such texts sort by time.
const clockTime = "2006-01-02T15:04:05.000000000"

// local returns the time when local clocks show what t shows in UTC. It fails if that happens
// never or twice, because clocks are put forward or back.
func local(t time.Time) (time.Time, error) {
	shown := t.Format(clockTime)
	var found []time.Time
	for _, near := range []time.Duration{-24 * time.Hour, 24 * time.Hour} { // before and after a change
		_, offset := t.Add(near).In(time.Local).Zone()
		u := t.Add(-time.Duration(offset) * time.Second).Local()
		if u.Format(clockTime) == shown && !slices.ContainsFunc(found, u.Equal) {
			found = append(found, u)
		}
	}
	if times := len(found); times != 1 {
		return time.Time{}, fmt.Errorf("clocks here show %s %d times: give the difference to UTC as well, such as 2026-07-01T02:00:00+02:00", t.Format(time.DateTime), times)
	}
	return found[0], nil
}
