// Command forslab is the laboratory; see package forslab.
package main

import (
	"os"

	"github.com/forsd/forsd/lab/forslab"
)

var version = "development"

func main() {
	forslab.Version = version
	os.Exit(forslab.Run(os.Args[1:], os.Stdout, os.Stderr))
}
