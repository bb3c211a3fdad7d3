// Command forsd is the fabric controller; see package daemon.
package main

import (
	"os"

	"forsd/internal/daemon"
)

var version = "development"

func main() { os.Exit(daemon.Main(os.Args[1:], version)) }
