package command

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestReadAtMost checks that only files within the limit are read.
func TestReadAtMost(t *testing.T) {
	if data, err := ReadAtMost(strings.NewReader("12345"), 5, "f"); err != nil || string(data) != "12345" {
		t.Errorf("5 bytes of 5: %q, %v", data, err)
	}
	if data, err := ReadAtMost(strings.NewReader("123456"), 5, "f"); err == nil || err.Error() != "read f: it has more than 5 bytes: is it the right file?" {
		t.Errorf("6 bytes of 5: %q, %v", data, err)
	}
}

// TestUnlessStopped interrupts work that takes long.
func TestUnlessStopped(t *testing.T) {
	if v, err := UnlessStopped(t.Context(), func() (int, error) { return 7, nil }); v != 7 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{})
	go func() {
		<-started
		cancel()
	}()
	_, err := UnlessStopped(ctx, func() (int, error) {
		close(started)
		<-t.Context().Done() // not before the test ends
		return 0, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
