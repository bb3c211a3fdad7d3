package manager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/topology"
)

// Withdraw moves the table file away for the time after forsd ends. OpenSM would load even an
// old file; without the file it makes its own tables at its next sweep. If the last sweep left
// entries that lead to dead ports, Withdraw makes OpenSM sweep. The file stays if OpenSM does
// not make its own tables.
func Withdraw(ctx context.Context, o *config.OpenSM, finder opensm.Finder) error {
	var process *opensm.Process
	if p, err := finder.Find(ctx); err == nil {
		process = &p
	}
	settings, _ := opensm.LoadSettings(process, o.Conf)
	if !settings.FallsBack() {
		return fmt.Errorf("%s stays: with routing_engine %s OpenSM makes no tables of its own: see forsctl doctor", o.LFTsFile, settings.RoutingEngine)
	}
	stale := stale(o)
	if err := opensm.WithdrawTables(o.LFTsFile); err != nil || !stale || process == nil {
		return err
	}
	_, err := opensm.Sweep(ctx, finder)
	return err
}

// stale reports whether the table file leads to ports that are dead in OpenSM's last dump.
func stale(o *config.OpenSM) bool {
	text, err := os.ReadFile(o.LFTsFile)
	if err != nil {
		return false
	}
	tables, err := lft.ReadBytes(text)
	if err != nil {
		return false
	}
	dump, err := os.ReadFile(filepath.Join(o.DumpDir, opensm.SubnetFile))
	if err != nil {
		return false
	}
	f, err := topology.ReadSubnetLst(dump)
	return err == nil && tables.Dead(f) > 0
}
