package store

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Timestamp is a moment by two clocks. Stored with times, it keeps durations across restarts,
// independent of changes to the time of day: the clock that counts from boot is never set.
type Timestamp struct {
	Wall      time.Time     `json:"day"` // by the time of day
	SinceBoot time.Duration `json:"up"`
	BootID    string        `json:"boot"`
}

// SinceBoot returns the time since boot and an ID of the boot, or "" if that is not known. Tests
// replace it.
var SinceBoot = func() (time.Duration, string) {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, ""
	}
	seconds, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return 0, ""
	}
	return time.Duration(n * float64(time.Second)), bootID()
}

// StampNow returns the timestamp of the present moment.
func StampNow(now time.Time) Timestamp {
	since, boot := SinceBoot()
	return Timestamp{Wall: now.Round(0), SinceBoot: since, BootID: boot}
}

// StoredTime converts a time for storing with the timestamp of now, because the clock may have been
// set since the time was taken.
func StoredTime(now, t time.Time) time.Time { return now.Add(t.Sub(now)).Round(0) }

// Time converts a time that was stored with the timestamp to the present clock. If the machine was
// rebooted, or the timestamp is from another machine, it uses the time of day.
func (s Timestamp) Time(now, t time.Time) time.Time {
	if since, boot := SinceBoot(); boot != "" && boot == s.BootID {
		return now.Add(t.Sub(s.Wall) - (since - s.SinceBoot))
	}
	return now.Add(t.Sub(now))
}
