package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
)

// Limits on commands and on waits, as in guest.within; a guest in software is some twenty
// times as slow as its host.
const (
	commandLimit = 15 * time.Minute
	waitLimit    = 6 * time.Minute
)

// site is the site in the guest.
type site struct {
	guest          *guest
	leaves, spines int
	readme         string
	done           int
	// failed is the first failure. Actions on the site do nothing after it, so that steps
	// read as lists of actions.
	failed error
}

// fail records a failure.
func (s *site) fail(format string, args ...any) {
	if s.failed == nil {
		s.failed = fmt.Errorf(format, args...)
	}
}

// must runs a script that has to succeed.
func (s *site) must(ctx context.Context, script string) (out string) {
	if s.failed == nil {
		out, s.failed = s.guest.run(ctx, commandLimit, script)
	}
	return out
}

// all runs scripts that have to succeed, one after the other.
func (s *site) all(ctx context.Context, scripts ...string) {
	for _, script := range scripts {
		s.must(ctx, script)
	}
}

// boot restarts the guest.
func (s *site) boot(ctx context.Context) {
	if s.failed == nil {
		s.failed = s.guest.reboot(ctx)
	}
}

// says runs a script whose exit code does not matter, and fails unless it prints all of the
// words.
func (s *site) says(ctx context.Context, script string, words ...string) {
	if s.failed != nil {
		return
	}
	out, err := s.guest.run(ctx, commandLimit, script)
	if bad := (*failed)(nil); err != nil && !errors.As(err, &bad) {
		s.failed = err
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			s.fail("%q does not say %q:\n%s", script, word, out)
		}
	}
}

// until tries a check until it does not fail.
func (s *site) until(ctx context.Context, what string, check func(try *site)) {
	if s.failed != nil {
		return
	}
	limited, cancel := s.guest.within(ctx, waitLimit, "not after %s", waitLimit)
	defer cancel()
	for s.failed == nil {
		try := *s
		check(&try)
		if try.failed == nil {
			return
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-limited.Done():
			s.fail("%s: %w: %w", what, context.Cause(limited), try.failed)
		}
	}
}

// status asks forsd.
func (s *site) status(ctx context.Context) *api.Status {
	out := s.must(ctx, "forsctl status --json 2>/tmp/said || [ $? -eq 1 ] || { cat /tmp/said; exit 2; }")
	status := &api.Status{LastEvent: &api.LastEvent{}}
	if err := json.Unmarshal([]byte(out), status); err != nil {
		s.fail("forsctl status --json: %w:\n%s", err, out)
	}
	return status
}

// await waits for a state of forsd.
func (s *site) await(ctx context.Context, what string, holds func(*api.Status) bool) *api.Status {
	status := &api.Status{LastEvent: &api.LastEvent{}}
	s.until(ctx, what, func(try *site) {
		if status = try.status(ctx); !holds(status) {
			text, _ := json.Marshal(status)
			try.fail("forsd is in this state: %s", text)
		}
	})
	return status
}

// inForce reports whether a plan is in force, on tables read back, by OpenSM's plugin.
func inForce(t *api.Status) bool {
	return t.Ready && t.OpenSM.Running && t.OpenSM.Plugin != nil && t.OpenSM.TablesMatch
}

// verified reads fabric and tables by the diagnostic tools, and makes the verifier walk
// the plan in force through them.
func (s *site) verified(ctx context.Context) {
	s.all(ctx, scan+`forsctl phases --out /tmp/phases.bin
forsctl verify --topology /tmp/net --lfts /tmp/tables --phases /tmp/phases.bin --baseline /var/lib/forsd/baseline.json`)
}

// scan begins scripts that read the fabric and the switches' tables by the diagnostic
// tools, which the simulator may refuse for a moment. The simulator has ten places for
// clients, and those that were killed keep theirs until they are freed.
const scan = `set -e
cd /run/ibsim
for left in 4 3 2 1 0; do
	: >said; echo Attached >console; sleep 1
	sed -n 's/.*Client \([0-9]*\): pid \([0-9]*\) .*/\1 \2/p' said | while read -r client pid; do
		[ -e /proc/$pid ] || echo "X $client" >console
	done
	( set -a; . /etc/fabric.env; ibnetdiscover >/tmp/net && dump_fts -n >/tmp/tables ) && break
	[ $left -gt 0 ]
	sleep 1
done
`

// planned waits for a plan in force, and verifies it.
func (s *site) planned(ctx context.Context) *api.Status {
	status := s.await(ctx, "a plan in force", inForce)
	s.verified(ctx)
	return status
}

// console gives the simulator a command.
func (s *site) console(ctx context.Context, command string) {
	s.must(ctx, fmt.Sprintf("echo '%s' >/run/ibsim/console", command))
}

// cable is the first cable to a spine of a leaf, as the simulator names it.
func (s *site) cable(leaf int) string { return fmt.Sprintf(`"Leaf%03d"[%d]`, leaf, s.spines+1) }

// pull pulls a cable and waits until it is gone from the tables in the leaf.
func (s *site) pull(ctx context.Context, leaf int) {
	s.console(ctx, "unlink "+s.cable(leaf))
	s.until(ctx, "tables without the dead cable", func(try *site) {
		out := try.must(ctx, fmt.Sprintf(`cd /run/ibsim; set -a; . /etc/fabric.env; dump_fts -n | sed -n "/Leaf%03d/,/valid lids/p" | grep -c ' 0*%d :' || :`, leaf, s.spines+1))
		if strings.TrimSpace(out) != "0" {
			try.fail("%s LIDs lead into the dead port of leaf %d", out, leaf)
		}
	})
}

// manager is the process of OpenSM.
func (s *site) manager(ctx context.Context) string {
	return s.must(ctx, fmt.Sprintf("pid=$(systemctl show -P MainPID '%s'); [ \"$pid\" -gt 0 ] && echo $pid", opensm))
}

// untouched fails if OpenSM's process has changed.
func (s *site) untouched(ctx context.Context, was string) {
	if is := s.manager(ctx); is != was {
		s.fail("OpenSM was process %s and is %q", was, is)
	}
}

// opensm is the one instance of OpenSM's unit.
const opensm = "opensm@0x0000000000100001.service"
