// Command forsd is the fabric controller; see package daemon.
package main

import (
	"os"

	"github.com/forsd/forsd/internal/daemon"
)

var version = "development"

func main() { os.Exit(daemon.Main(os.Args[1:], version)) }
