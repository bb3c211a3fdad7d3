package adapter

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"
)

// Listening waits until a program listens on a TCP port, without connecting: the program
// would take that for its client.
func Listening(ctx context.Context, port string) error {
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	entry := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]+:%04X [0-9A-F:]+ 0A `, n))
	for ctx.Err() == nil {
		for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			if table, err := os.ReadFile(file); err == nil && entry.Match(table) {
				return nil
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return ctx.Err()
}
