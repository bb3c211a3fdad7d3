// Command forsctl is the operator's tool; see package cli.
package main

import (
	"os"

	"github.com/forsd/forsd/internal/cli"
)

var version = "development"

func main() {
	cli.Version = version
	os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr))
}
