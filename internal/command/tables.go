package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// ReadTablesOf reads the forwarding tables of a fabric that was read from the path from. It
// rejects tables that cannot belong to that fabric, and prints doubts to standard error.
func ReadTablesOf(cmd *cobra.Command, f *topology.Fabric, from, path string) (*lft.Tables, error) {
	tables, err := ReadTables(path)
	if err != nil {
		return nil, err
	}
	doubts, err := tables.Misfit(f)
	if err != nil {
		return nil, fmt.Errorf("%s is not of the fabric of %s: %w", path, from, err)
	}
	for _, doubt := range doubts {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s on %s: %s\n", cmd.Root().Name(), path, from, doubt)
	}
	return tables, nil
}

// ReadTables reads forwarding tables in any format that package lft supports.
func ReadTables(path string) (*lft.Tables, error) {
	return Parse(path, lft.ReadBytes)(ReadFlag("lfts", path, "a file with forwarding tables (lfts.dump, opensm-lfts.dump or the output of dump_fts)"))
}
