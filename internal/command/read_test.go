package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/matrix"
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
	master, terminal := pty(t)
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

// pty is a terminal and what is behind it.
func pty(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	var n, locked int32
	for request, value := range map[uintptr]*int32{syscall.TIOCGPTN: &n, syscall.TIOCSPTLCK: &locked} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return master, terminal
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
