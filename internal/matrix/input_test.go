package matrix

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/testbed/programs"
)

// TestReadInputStops checks that an interrupt ends the wait for standard input.
func TestReadInputStops(t *testing.T) {
	silent, end := io.Pipe()
	defer end.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetIn(silent)
	cancel()
	if m, err := ReadInput(cmd, "-", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v, %v", m, err)
	}
}

// TestReadInputTells checks the message on a terminal after a second of reading.
func TestReadInputTells(t *testing.T) {
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
	if _, err := ReadInput(cmd, "-", Options{}); err != nil {
		t.Fatal(err)
	}
	if text := <-told; !strings.Contains(text, "reading -: 1 s") {
		t.Errorf("it tells %q", text)
	}
}
