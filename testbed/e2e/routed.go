package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// routedLimit bounds what is done on an OpenSM that was brought up for it.
const routedLimit = 2 * time.Minute

// OnOpenSM does something on a fabric that OpenSM has just brought up from a cold start.
func OnOpenSM(ctx context.Context, o Options, do func(context.Context, *Site) error) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, routedLimit, fmt.Errorf("it took longer than %v", routedLimit))
	defer cancel()
	site, err := New(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	if err := errors.Join(os.MkdirAll(filepath.Dir(site.TableFile()), 0o755), os.WriteFile(site.TableFile(), nil, 0o644)); err != nil {
		return err
	}
	if err := site.StartOpenSM(ctx); err != nil {
		return err
	}
	if _, _, err := site.SM.WaitLog(ctx, ibsim.SubnetUp, 0); err != nil {
		return err
	}
	return do(ctx, site)
}

// EngineOf is the engine from which OpenSM reports that it has taken the tables.
func EngineOf(sm *ibsim.OpenSM) (string, error) {
	log, err := sm.Log()
	if err != nil {
		return "", err
	}
	used := ""
	for line := range strings.Lines(string(log)) {
		if e, ok := opensm.ClassifyLog(line); ok && e.Kind == opensm.EngineUsed {
			used = e.Engine
		}
	}
	if used == "" {
		return "", fmt.Errorf("%s does not say which routing engine made the tables: this OpenSM words it differently", sm.LogFile())
	}
	return used, nil
}

// Routed has an OpenSM bring a fabric up by an engine, from a cold start. It returns the
// fabric as OpenSM sees it, the tables in the switches, and the engine that made them.
func Routed(ctx context.Context, f *topology.Fabric, engine string) (seen *topology.Fabric, tables *lft.Tables, used string, err error) {
	err = OnOpenSM(ctx, Options{Fabric: f, Engine: engine}, func(ctx context.Context, site *Site) (err error) {
		if used, err = EngineOf(site.SM); err != nil {
			return err
		}
		if seen, err = site.Fabric(ctx); err != nil {
			return err
		}
		tables, err = site.ReadTables(ctx)
		return err
	})
	return seen, tables, used, err
}
