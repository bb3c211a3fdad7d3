package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/health"
)

// Limits on commands and on what is waited for; a guest in software on a busy machine
// is some twenty times as slow as its host.
const (
	commandLimit = 15 * time.Minute
	waitLimit    = 6 * time.Minute
)

// site is what runs in the guest.
type site struct {
	guest          *guest
	leaves, spines int
	done           int
}

// must runs a script that has to succeed.
func (s *site) must(ctx context.Context, script string) (string, error) {
	return s.guest.run(ctx, commandLimit, script)
}

// all runs scripts that have to succeed, one after the other.
func (s *site) all(ctx context.Context, scripts ...string) error {
	for _, script := range scripts {
		if _, err := s.must(ctx, script); err != nil {
			return err
		}
	}
	return nil
}

// says runs a script whose exit code does not matter, and fails where it does not print
// all of the words.
func (s *site) says(ctx context.Context, script string, words ...string) error {
	out, err := s.guest.run(ctx, commandLimit, script)
	if bad := (*failed)(nil); err != nil && !errors.As(err, &bad) {
		return err
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			return fmt.Errorf("%q does not say %q:\n%s", script, word, out)
		}
	}
	return nil
}

// until waits for what a check asks for.
func until(ctx context.Context, what string, check func() error) error {
	deadline := time.Now().Add(waitLimit)
	for {
		err := check()
		switch {
		case err == nil:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s: not after %s: %w", what, waitLimit, err)
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// status asks forsd.
func (s *site) status(ctx context.Context) (*api.Status, error) {
	out, err := s.must(ctx, "forsctl status --json 2>/tmp/said || [ $? -eq 1 ] || { cat /tmp/said; exit 2; }")
	if err != nil {
		return nil, err
	}
	var status api.Status
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		return nil, fmt.Errorf("forsctl status --json: %w:\n%s", err, out)
	}
	return &status, nil
}

// await waits for a state of forsd.
func (s *site) await(ctx context.Context, what string, holds func(*api.Status) bool) (status *api.Status, err error) {
	err = until(ctx, what, func() error {
		if status, err = s.status(ctx); err != nil {
			return err
		}
		if !holds(status) {
			text, _ := json.Marshal(status)
			return fmt.Errorf("forsd is in this state: %s", text)
		}
		return nil
	})
	return status, err
}

// inForce holds where a plan is in force, on tables read back, by OpenSM's plugin.
func inForce(t *api.Status) bool {
	return t.Ready && t.OpenSM.Running && t.OpenSM.Plugin != nil && t.OpenSM.TablesMatch
}

// warns tells whether a warning is in force.
func warns(t *api.Status, code string) bool {
	return slices.ContainsFunc(t.Warnings, func(w health.Warning) bool { return w.Code == code })
}

// verified reads fabric and tables by the diagnostic tools, and has the verifier walk
// the plan in force through them.
func (s *site) verified(ctx context.Context) error {
	return s.all(ctx, scan+`forsctl phases --out /tmp/phases.bin
forsctl verify --topology /tmp/net --lfts /tmp/tables --phases /tmp/phases.bin`)
}

// scan begins scripts that read the fabric and the switches' tables by the diagnostic
// tools.
const scan = `set -e
cd /run/ibsim
( set -a; . /etc/fabric.env; ibnetdiscover >/tmp/net; dump_fts -n >/tmp/tables )
`

// planned waits for a plan in force, and verifies it.
func (s *site) planned(ctx context.Context) (*api.Status, error) {
	status, err := s.await(ctx, "a plan in force", inForce)
	if err != nil {
		return nil, err
	}
	return status, s.verified(ctx)
}

// console has the simulator do something.
func (s *site) console(ctx context.Context, command string) error {
	_, err := s.must(ctx, fmt.Sprintf("echo '%s' >/run/ibsim/console", command))
	return err
}

// cable is the first cable to a spine of a leaf, as the simulator names it.
func (s *site) cable(leaf int) string { return fmt.Sprintf(`"Leaf%03d"[%d]`, leaf, s.spines+1) }

// unpulled waits until a cable is gone from the plan, and from the tables in the leaf.
func (s *site) pull(ctx context.Context, leaf int) error {
	if err := s.console(ctx, "unlink "+s.cable(leaf)); err != nil {
		return err
	}
	return until(ctx, "tables without the dead cable", func() error {
		out, err := s.must(ctx, fmt.Sprintf(`cd /run/ibsim; set -a; . /etc/fabric.env; dump_fts -n | sed -n "/Leaf%03d/,/valid lids/p" | grep -c ' 0*%d :' || :`, leaf, s.spines+1))
		if err == nil && strings.TrimSpace(out) != "0" {
			err = fmt.Errorf("%s LIDs lead into the dead port of leaf %d", out, leaf)
		}
		return err
	})
}

// manager is the process of OpenSM.
func (s *site) manager(ctx context.Context) (string, error) {
	return s.must(ctx, fmt.Sprintf("pid=$(systemctl show -P MainPID '%s'); [ \"$pid\" -gt 0 ] && echo $pid", opensm))
}

// opensm is the one instance of OpenSM's unit.
const opensm = "opensm@0x0000000000100001.service"
