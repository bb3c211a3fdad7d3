package journal

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/journal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestUnreadLog logs more than the queue and a pipe that is not read can hold. Logging does
// not wait, and later the log has the number of entries that it lacks.
func TestUnreadLog(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	q := NewQueue(w)
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "m"}), q, zapcore.InfoLevel))
	const entries = 4 * mostWaiting
	for i := range entries {
		log.Info(fmt.Sprint(i), zap.String("text", strings.Repeat("x", 100)))
	}
	if err := log.Sync(); err == nil {
		t.Error("an unread log is written")
	}
	seen, left := 0, 0
	for s := bufio.NewScanner(r); seen+left < entries && s.Scan(); {
		n := 0
		if strings.HasPrefix(s.Text(), "{") {
			seen++
		} else if _, err := fmt.Sscanf(s.Text(), "%d entries of the log are left out", &n); err != nil {
			t.Fatalf("%q", s.Text())
		}
		left += n // they may be reported in parts
	}
	if seen < mostWaiting || left == 0 || seen+left != entries {
		t.Errorf("%d entries written, %d left out of %d", seen, left, entries)
	}
	if err := log.Sync(); err != nil {
		t.Error(err)
	}
}

// TestUnreadJournal has a journal that takes no entry for a while.
func TestUnreadJournal(t *testing.T) {
	got, reads := []string{}, make(chan struct{})
	c := &core{LevelEnabler: zapcore.InfoLevel, queue: NewQueue(os.Stderr), send: func(message string, _ journal.Priority, _ map[string]string) error {
		<-reads
		got = append(got, message)
		return nil
	}}
	log := zap.New(c)
	log.Info("first")
	log.Info("second")
	close(reads)
	if err := log.Sync(); err != nil || strings.Join(got, " ") != "first second" {
		t.Errorf("%q, %v", got, err)
	}
}
