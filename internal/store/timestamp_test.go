package store

import (
	"encoding/json"
	"testing"
	"time"
)

// TestStep stores a time, changes the clock by some hours, and restarts the process or the
// machine. It checks that a time an hour away remains an hour away, unless the machine was
// restarted.
func TestStep(t *testing.T) {
	since, boot := 5*time.Minute, "first"
	was := SinceBoot
	SinceBoot = func() (time.Duration, string) { return since, boot }
	t.Cleanup(func() { SinceBoot = was })
	day := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name          string
		step, passed  time.Duration
		boot          string
		left          time.Duration
		sinceTheStart time.Duration
	}{
		{"nothing", 0, time.Minute, "first", 59 * time.Minute, 0},
		{"forward", 2 * time.Hour, time.Minute, "first", 59 * time.Minute, 0},
		{"back", -3 * time.Hour, time.Minute, "first", 59 * time.Minute, 0},
		{"started anew", 0, 10 * time.Minute, "second", 50 * time.Minute, time.Minute},
		{"another machine", 5 * time.Minute, 10 * time.Minute, "", 45 * time.Minute, 0},
	} {
		since, boot = 5*time.Minute, "first"
		text, err := json.Marshal(StampNow(day))
		if err != nil {
			t.Fatal(err)
		}
		var m Timestamp
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		stored := StoredTime(day, day.Add(time.Hour))
		now := day.Add(c.passed + c.step)
		if since, boot = since+c.passed, c.boot; c.sinceTheStart != 0 {
			since = c.sinceTheStart
		}
		if left := m.Time(now, stored).Sub(now); left != c.left {
			t.Errorf("%s: %v are left, want %v", c.name, left, c.left)
		}
	}
}

// TestUp reads the clock that counts from boot, which must advance.
func TestUp(t *testing.T) {
	first, boot := SinceBoot()
	time.Sleep(30 * time.Millisecond)
	second, again := SinceBoot()
	if boot == "" || boot != again || second <= first || second-first > time.Minute {
		t.Errorf("%v of %q, then %v of %q", first, boot, second, again)
	}
	if m := StampNow(time.Now()); m.BootID != boot || m.SinceBoot < second {
		t.Errorf("%+v", m)
	}
}

// TestStored converts times of a process whose clock was set during its run, and checks that
// the elapsed time stays the same.
func TestStored(t *testing.T) {
	began := time.Now()
	time.Sleep(20 * time.Millisecond)
	now := time.Now()
	if stored := StoredTime(now, began); stored != stored.Round(0) || now.Round(0).Sub(stored) < 20*time.Millisecond {
		t.Errorf("%v after %v is stored as %v", now, began, stored)
	}
}
