// Command forsplan plans exchanges on networks other than InfiniBand fat trees; see package
// forsplan.
package main

import (
	"os"

	"github.com/forsd/forsd/internal/forsplan"
)

var version = "development"

func main() {
	forsplan.Version = version
	os.Exit(forsplan.Run(os.Args[1:], os.Stdout, os.Stderr))
}
