// Package steady keeps durations across restarts of a process, independent of changes to
// the host's clock.
//
// Within a process Go's monotonic times suffice. Stored times only have the time of day. A
// Mark stored with them records when that was, also by the clock that counts from boot and
// is never set.
package steady

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Mark is a moment.
type Mark struct {
	Day  time.Time     `json:"day"`  // by the time of day
	Up   time.Duration `json:"up"`   // since the machine was started
	Boot string        `json:"boot"` // names that start
}

// up says how long the machine has been up, since which start; "" where that is not known.
// Tests have their own.
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

// Now marks the moment, which is now.
func Now(now time.Time) Mark {
	since, boot := up()
	return Mark{Day: now.Round(0), Up: since, Boot: boot}
}

// Stored returns a time for storing with the mark, which is of now: the clock may have been
// set since the time was taken.
func Stored(now, t time.Time) time.Time { return now.Add(t.Sub(now)).Round(0) }

// Time returns a time that was stored with the mark, by the present clock. If the machine
// was rebooted, or the mark is of another machine, the time of day is used.
func (m Mark) Time(now, t time.Time) time.Time {
	if since, boot := up(); boot != "" && boot == m.Boot {
		return now.Add(t.Sub(m.Day) - (since - m.Up))
	}
	return now.Add(t.Sub(now))
}
