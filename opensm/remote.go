package opensm

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/forsd/forsd/topology"
)

// maxDiscovery is the most that a discovery may print, in bytes.
const maxDiscovery = 512 << 20

// Discover runs a command that prints the fabric as ibnetdiscover does, with the LIDs and
// LMCs of all ports, and parses its output.
func Discover(ctx context.Context, command []string, timeout time.Duration) (f *topology.Fabric, err error) {
	err = runCommand(ctx, timeout, command, func(text io.Reader) error {
		data, err := io.ReadAll(io.LimitReader(text, maxDiscovery+1))
		if len(data) > maxDiscovery {
			return fmt.Errorf("it prints more than %d bytes", maxDiscovery)
		}
		if err == nil {
			f, _, err = topology.Read(data)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("discover the fabric with %q: %w", strings.Join(command, " "), hint(err))
	}
	return f, nil
}

// Install runs a command that brings the table file to the manager and has it sweep.
// The file's path is its last argument.
func Install(ctx context.Context, command []string, tables string, timeout time.Duration) error {
	argv := append(append([]string{}, command...), tables)
	if err := runCommand(ctx, timeout, argv, func(io.Reader) error { return nil }); err != nil {
		return fmt.Errorf("install the tables with %q: %w", strings.Join(argv, " "), err)
	}
	return nil
}
