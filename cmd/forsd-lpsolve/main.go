// Command forsd-lpsolve solves one linear or integer programme with lp_solve. Package ilp runs
// it, so that forsd and forsctl start without lp_solve's library.
package main

import (
	"fmt"
	"os"

	"github.com/forsd/forsd/ilp"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--check" { // the library was found
		if ilp.Available() {
			return
		}
		os.Exit(1)
	}
	if err := ilp.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
