package plugin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/lft"
)

// plain builds a program with the parts of the library that do not depend on OpenSM.
func plain(t *testing.T, source, sanitizer string) string {
	t.Helper()
	program, err := build(t.TempDir(), source, sanitizer)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func build(dir, source, sanitizer string) (program string, err error) {
	program = filepath.Join(dir, "program")
	cmd := exec.Command("gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-pthread", "-fsanitize="+sanitizer, "-Wall", "-Werror", "-o", program,
		source, "src/link.c", "src/mend.c", "src/tables.c", "src/thread.c", "src/wire.c")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, said)
	}
	return program, nil
}

// TestThreads runs the plugin's link under ThreadSanitizer and AddressSanitizer,
// with everything at once in its process and with forsd's end coming and going.
func TestThreads(t *testing.T) {
	t.Parallel()
	for _, sanitizer := range []string{"thread", "address,undefined"} {
		t.Run(sanitizer, func(t *testing.T) { churn(t, plain(t, "testdata/threads.c", sanitizer)) })
	}
}

// TestQueue has a forsd that takes nothing.
func TestQueue(t *testing.T) { passes(t, "testdata/queue.c") }

// TestSettles checks that a sweep's start waits for traps as long as it should, and that the wait
// ends even if traps go on and on.
func TestSettles(t *testing.T) { passes(t, "testdata/settle.c") }

// passes runs a program that judges for itself.
func passes(t *testing.T, source string) {
	t.Helper()
	if said, err := exec.Command(plain(t, source, "address,undefined")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// churn runs the program until it has had 300 tables, and ends forsd's end after
// every 40 of them.
func churn(t *testing.T, program string) {
	dir, err := os.MkdirTemp("", "fors-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "sock")
	var said strings.Builder
	cmd := exec.Command(program, socket, "300")
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		var traps, count int
		ctx, stop := context.WithCancel(t.Context())
		server, err := Listen(Config{Path: socket, Event: func(e Event) {
			switch e := e.(type) {
			case Trap:
				traps++
			case Disconnected:
				if strings.Contains(e.Err.Error(), "read message") {
					t.Error(e.Err)
					stop() // it would not come to an end
				}
			case Outcome:
				if e.Result == Installed {
					count++
				}
				if count == 40 {
					stop()
				}
			}
		}, Tables: func(_ context.Context, r Request) (*lft.Tables, error) {
			out := slices.Repeat([]uint8{1}, 200)
			out[r.Number%100] = lft.NoPath
			return &lft.Tables{Switches: []lft.Table{{GUID: 1, Out: out}}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			if err := server.Serve(ctx); err != nil {
				t.Error(err)
			}
		}()
		select {
		case <-over:
			if t.Failed() {
				_ = cmd.Process.Kill()
				if err := <-ended; err != nil {
					t.Log(err)
				}
				return
			}
			if traps == 0 {
				t.Error("there was no trap")
			}
			continue
		case err := <-ended:
			stop()
			<-over
			if err != nil || !strings.Contains(said.String(), "300 sweeps") {
				t.Errorf("%v\n%s", err, said.String())
			}
			t.Log(said.String())
			return
		}
	}
}
