// Package client is the common part of programs that read the switches of a simulated fabric,
// as clients of the simulation, for other packages of the test bench.
package client

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/topology"
)

// Main runs such a program: work gets a reader of the switches and the fabric of the file
// that is the program's argument, and goes on until ended is closed, at the end of
// standard input.
func Main(work func(ctx context.Context, r *umad.Reader, f *topology.Fabric, ended <-chan struct{}) error) {
	if err := run(os.Args[1], work); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
}

func run(path string, work func(context.Context, *umad.Reader, *topology.Fabric, <-chan struct{}) error) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fabric, _, err := topology.Read(data)
	if err != nil {
		return err
	}
	local, err := umad.LocalPorts()
	if err != nil {
		return err
	}
	if len(local) == 0 {
		return fmt.Errorf("no local port")
	}
	// A switch whose cable is being pulled is not worth a wait: the next round comes soon.
	r, err := umad.Open(local[0], umad.Options{Timeout: 30 * time.Millisecond, Tries: 2})
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	return work(context.Background(), r, fabric, ended)
}
