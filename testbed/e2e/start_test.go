package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/opensm"
)

// TestFirstStart brings a site up without a table file, in both orders. Until
// forsd has written one, OpenSM's own engine routes.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	t.Run("forsd first", func(t *testing.T) {
		x := newSite(t, 4*time.Minute, small())
		x.ok(x.StartForsd())
		x.until("forsd serves its API", func(st *api.Status) bool { return !st.Ready })
		if _, err := os.Stat(x.TableFile()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("there is a table file before a fabric was seen: %v", err)
		}
		x.ok(x.StartOpenSM(x.ctx))
		x.comesUp()
	})
	t.Run("OpenSM first", func(t *testing.T) {
		x := newSite(t, 4*time.Minute, small())
		if _, err := os.Stat(x.TableFile()); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("there is a table file already: %v", err)
		}
		x.ok(x.StartOpenSM(x.ctx))
		ctx, cancel := x.within()
		defer cancel()
		_, _, err := x.SM.WaitLog(ctx, "ERR 6302", 0)
		x.ok(err)
		x.ok(x.StartForsd())
		x.comesUp()
	})
}

// comesUp waits for the first epoch and checks it.
func (x *test) comesUp() {
	x.Helper()
	st := x.loaded()
	x.check()
	if st.Epoch != 1 || st.Phases != 15 || st.LowerBound != 15 || st.Servers != 16 || st.Lanes != 4 || st.LMC != 2 {
		x.Errorf("unexpected status %+v", st)
	}
	x.said(st.LastEvent.What, "first time")
	for _, w := range st.Warnings {
		if w.Code != opensm.HonorGUID2LIDOff {
			x.Errorf("warning %s: %s", w.Code, w.Text)
		}
	}
	x.ok(x.Client.Ready(x.ctx))
}

// TestSecondDaemon starts a second forsd: on the same socket, on the same state with another
// socket, and on a state and sockets of its own with the same OpenSM, whose table file the first
// one writes. It must refuse, and the first must go on undisturbed.
func TestSecondDaemon(t *testing.T) {
	t.Parallel()
	x, _ := up(t, 4*time.Minute, small())
	text, err := os.ReadFile(x.ConfigFile())
	x.ok(err)
	for _, own := range [][]string{{x.Socket()}, {x.StateDir()}, {x.Socket(), x.StateDir(), x.PluginSocket()}} {
		config, changed := x.Dir()+"/second.yaml", string(text)
		for i, path := range own {
			changed = strings.Replace(changed, path, fmt.Sprintf("%s/own%d", x.Dir(), i), 1)
		}
		x.ok(os.WriteFile(config, []byte(changed), 0o644))
		second, err := startForsd(nil, nil, x.options.Forsd, config, x.Dir())
		x.ok(err)
		ctx, cancel := x.within()
		err = second.Wait(ctx)
		second.Kill()
		cancel()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("with its own %s: the second forsd ended with %v", own, err)
		}
		x.ok(x.Client.Ready(x.ctx))
	}
	_, err = x.Client.Reroute(x.ctx)
	x.ok(err)
	x.check()
}
