package command

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/matrix"
	"github.com/forsd/forsd/testbed/programs"
)

// TestReadMatrixStops waits for standard input no longer than until the program is
// interrupted.
func TestReadMatrixStops(t *testing.T) {
	silent, end := io.Pipe()
	defer end.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetIn(silent)
	cancel()
	if m, err := ReadMatrix(cmd, "-", matrix.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v, %v", m, err)
	}
}

// TestReadMatrixTells tells on a terminal that it reads for longer than a second.
func TestReadMatrixTells(t *testing.T) {
	master, terminal := programs.Terminal(t)
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetErr(terminal)
	in, send := io.Pipe()
	cmd.SetIn(in)
	told := make(chan string, 1)
	go func() {
		text := make([]byte, 100)
		n, _ := master.Read(text)
		told <- string(text[:n])
		_, _ = io.WriteString(send, "1\n")
		_ = send.Close()
	}()
	time.AfterFunc(10*time.Second, func() { _ = send.CloseWithError(errors.New("nothing is told")) })
	if _, err := ReadMatrix(cmd, "-", matrix.Options{}); err != nil {
		t.Fatal(err)
	}
	if text := <-told; !strings.Contains(text, "reading -: 1 s") {
		t.Errorf("it tells %q", text)
	}
}

// TestReadAtMost reads files that are no longer than they may be.
func TestReadAtMost(t *testing.T) {
	if data, err := ReadAtMost(strings.NewReader("12345"), 5, "f"); err != nil || string(data) != "12345" {
		t.Errorf("5 bytes of 5: %q, %v", data, err)
	}
	if data, err := ReadAtMost(strings.NewReader("123456"), 5, "f"); err == nil || err.Error() != "read f: it has more than 5 bytes: is it the right file?" {
		t.Errorf("6 bytes of 5: %q, %v", data, err)
	}
}

// TestUnlessStopped ends what takes long when it is interrupted.
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
