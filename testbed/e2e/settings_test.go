package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/opensm"
)

// TestWrongSettings starts OpenSM with settings that defeat forsd, and waits for
// the warnings about them.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(o *Options)
		codes  []string
	}{
		{"unicast cache", func(o *Options) { o.Conf = map[string]string{"use_ucast_cache": "TRUE"} }, []string{opensm.UcastCacheOn}},
		{"no fallback", func(o *Options) { o.Engine = "file,no_fallback" }, []string{opensm.FallbackMissing}},
		{"minhop", func(o *Options) { o.Engine = "minhop" }, []string{opensm.RoutingEngineWrong, opensm.EngineFallback, controller.TablesStale}},
		{"LMC", func(o *Options) { o.LMC, o.LMCKey = 1, "2" }, []string{opensm.LMCTooSmall, opensm.LMCWrong}},
		{"table file", func(o *Options) { o.Tables = os.DevNull }, []string{opensm.LFTsFileWrong, controller.TablesStale}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := small()
			c.change(&o)
			x := newSite(t, 4*time.Minute, o)
			x.ok(x.Start(x.ctx))
			x.warned(c.codes...)
		})
	}
}

// TestFallback gives OpenSM a table file that it cannot use. With fallback allowed
// it reroutes the fabric by another engine, which must be noticed, and mended by the
// next file; without, it keeps the old tables, and reports it.
func TestFallback(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ engine, code string }{
		{"file", opensm.EngineFallback},
		{"file,no_fallback", opensm.FileRejected},
	} {
		t.Run(c.engine, func(t *testing.T) {
			o := small()
			o.Engine = c.engine
			x := newSite(t, 4*time.Minute, o)
			if c.code == opensm.FileRejected { // such an OpenSM does not come up without a file
				x.ok(os.MkdirAll(filepath.Dir(x.TableFile()), 0o755), os.WriteFile(x.TableFile(), nil, 0o644))
			}
			x.ok(x.Start(x.ctx))
			x.loaded()
			before := x.check()
			good, err := os.ReadFile(x.TableFile())
			x.ok(err, os.WriteFile(x.TableFile(), append(good, "0x0008 255\n"...), 0o644))
			x.ok(x.SM.Signal(syscall.SIGHUP))
			x.warned(c.code)
			_, err = x.Client.Reroute(x.ctx)
			x.ok(err)
			st := x.until("the warning is over", func(st *api.Status) bool { return !HasWarning(st, c.code) && st.State == "idle" })
			if now, err := os.ReadFile(x.TableFile()); err != nil || string(now) != string(good) {
				t.Errorf("the table file has not been mended: %v", err)
			}
			x.unmoved(before, x.check())
			if st.Epoch != 1 {
				t.Errorf("epoch %d of an unchanged fabric", st.Epoch)
			}
		})
	}
}
