// Package steady keeps how long something lasts over restarts of a process, where the clock
// of the host may be set meanwhile.
//
// Within a process Go's times take care of that. What is stored has the time of day alone. A
// Mark beside it says when that was, also by the clock that counts from the machine's start
// and is never set.
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

// Stored is a time as it is to be stored beside the mark, whose moment is now: the clock may
// have been set since the time was taken.
func Stored(now, t time.Time) time.Time { return now.Add(t.Sub(now)).Round(0) }

// Time is a time that was stored beside the mark, by the clock as it is now. Where the
// machine has been started anew, or the mark is of another one, the time of day stands.
func (m Mark) Time(now, t time.Time) time.Time {
	if since, boot := up(); boot != "" && boot == m.Boot {
		return now.Add(t.Sub(m.Day) - (since - m.Up))
	}
	return now.Add(t.Sub(now))
}
