// Package steady keeps durations across restarts of a process, independent of changes to the
// host's clock.
//
// Within a process Go's monotonic times suffice. Stored times only have the time of day. A Mark
// stored with them records the time of storing, also by the clock that counts from boot and is
// never set.
package steady

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Mark is a moment by both clocks.
type Mark struct {
	Day  time.Time     `json:"day"`  // by the time of day
	Up   time.Duration `json:"up"`   // since boot
	Boot string        `json:"boot"` // identifies the boot
}

// up returns the time since boot and an ID of the boot, or "" if that is not known. Tests
// replace it.
var up = func() (time.Duration, string) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0, ""
	}
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, ""
	}
	seconds, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return 0, ""
	}
	return time.Duration(n * float64(time.Second)), strings.TrimSpace(string(boot))
}

// Now returns the mark of the present moment.
func Now(now time.Time) Mark {
	since, boot := up()
	return Mark{Day: now.Round(0), Up: since, Boot: boot}
}

// Stored converts a time for storing with the mark of now, because the clock may have been set
// since the time was taken.
func Stored(now, t time.Time) time.Time { return now.Add(t.Sub(now)).Round(0) }

// Time converts a time that was stored with the mark to the present clock. If the machine was
// rebooted, or the mark is from another machine, it uses the time of day.
func (m Mark) Time(now, t time.Time) time.Time {
	if since, boot := up(); boot != "" && boot == m.Boot {
		return now.Add(t.Sub(m.Day) - (since - m.Up))
	}
	return now.Add(t.Sub(now))
}
