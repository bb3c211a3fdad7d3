package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Searching is Working for a search that may have a result when it is interrupted: keeps
// reports whether it has.
func Searching(cmd *cobra.Command, what string, keeps bool) (done func()) {
	w := Raw(cmd.ErrOrStderr())
	if f, isFile := w.(*os.File); !isFile || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	hint := ""
	if keeps {
		hint = "; Ctrl-C takes the best so far"
	}
	return working(w, what, hint)
}

// Working tells on standard error, where that is a terminal, what is being done and for how
// long, from the first second on. done ends that and takes the line away.
func Working(cmd *cobra.Command, what string) (done func()) { return Searching(cmd, what, false) }

// working writes a line to a terminal each second, over the one before.
func working(w io.Writer, what, hint string) (done func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for seconds := 0; ; {
			select {
			case <-stop:
				if seconds > 0 {
					fmt.Fprint(w, "\r\x1b[K")
				}
				return
			case <-tick.C:
				seconds++
				fmt.Fprintf(w, "\r\x1b[K%s: %d s%s", what, seconds, hint)
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

// Interrupted returns an error, exit code Failed, where the command was interrupted: what
// it has printed is the best that was found until then.
func Interrupted(cmd *cobra.Command) error {
	if cmd.Context().Err() == nil {
		return nil
	}
	return Violated{errors.New("interrupted: this is the best that was found until then")}
}
