package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

func ok(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// newDaemon returns a daemon with its own directories and without OpenSM. Nothing runs:
// the tests take the place of the loop.
func newDaemon(t testing.TB) *Daemon {
	t.Helper()
	return daemonIn(t, t.TempDir())
}

// daemonIn is newDaemon in a directory that may hold the state of another daemon.
func daemonIn(t testing.TB, dir string) *Daemon {
	t.Helper()
	cfg := config.Default()
	cfg.StateDir = filepath.Join(dir, "state")
	cfg.OpenSM.LFTsFile, cfg.OpenSM.RootFile = filepath.Join(dir, "lfts.dump"), filepath.Join(dir, "root")
	cfg.OpenSM.DumpDir, cfg.OpenSM.CacheDir = dir, dir
	cfg.OpenSM.PIDFile = filepath.Join(dir, "opensm.pid")
	cfg.API.Socket = filepath.Join(dir, "s")
	cfg.OpenSM.Plugin.Socket = filepath.Join(dir, "p")
	d, err := New(cfg, "test", zap.NewNop(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.closing.Wait() // the test's context has ended
		d.work.Wait()
		_ = d.desk.Written()
		_ = d.store.Close()
	})
	return d
}

// fabric returns a healthy tree.
func fabric(spines, leaves int) *topology.Fabric {
	return fabgen.Generate(fabgen.Spec{Spines: spines, Leaves: leaves, LMC: 5})
}

// lacking returns the fabric without the cable of lane k at leaf l.
func lacking(f *topology.Fabric, spines, l, k int) *topology.Fabric {
	f = f.Clone()
	f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID + ib.GUID(l)), Port: uint8(spines + 1 + k)})
	return f
}

// tree returns a small fat tree with LIDs for each of its lanes.
func tree(t *testing.T) *view.View {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	base, err := topology.NewBaseline(f)
	ok(t, err)
	v, err := view.New(f, base, &config.Planning{})
	ok(t, err)
	return v
}

// promised returns the highest number that a state directory promises.
func promised(t *testing.T, dir string) uint64 {
	t.Helper()
	var p struct{ Epoch uint64 }
	text, err := os.ReadFile(filepath.Join(dir, "promised.json"))
	ok(t, err)
	ok(t, json.Unmarshal(text, &p))
	return p.Epoch
}

// promise sets the promise of an unused state directory to numbers up to n since a boot.
func promise(t *testing.T, dir string, n uint64, boot string) {
	t.Helper()
	text := fmt.Sprintf(`{"epoch":%d,"boot":%q}`, n, boot)
	ok(t, os.WriteFile(filepath.Join(dir, "promised.json"), []byte(text), 0o644))
}

// see shows a fabric to the daemon as OpenSM's dump does, but not to the controller.
func (d *Daemon) see(t testing.TB, f *topology.Fabric) *view.View {
	t.Helper()
	base := d.state.Now().Baseline
	if base == nil {
		var err error
		if base, err = topology.NewBaseline(f); err != nil {
			t.Fatal(err)
		}
	}
	v, err := view.New(f, base, &config.Planning{})
	if err != nil {
		t.Fatal(err)
	}
	v.SeenAt = time.Now()
	d.state.Remember(v)
	return v
}

// bringUp puts a plan and tables of the fabric in force, as a first start does.
func (d *Daemon) bringUp(t testing.TB, f *topology.Fabric) *view.View {
	t.Helper()
	v := d.see(t, f)
	if _, err := d.actions.plans.Write(context.Background(), controller.Write{Fabric: v.Snapshot()}); err != nil {
		t.Fatal(err)
	}
	tables, err := tablesOf(v)
	if err != nil {
		t.Fatal(err)
	}
	d.desk.Read(tables, true)
	d.planAndPublish(t, controller.Plan{Fabric: v.Snapshot(), Final: true})
	return v
}

// planAndPublish makes a plan, which must differ from the one in force, and publishes it.
func (d *Daemon) planAndPublish(t testing.TB, a controller.Plan) {
	t.Helper()
	if e := d.actions.plans.Plan(context.Background(), a).(controller.Planned); e.Same || e.Err != "" {
		t.Fatalf("planned: %+v", e)
	}
	if err := d.actions.plans.Publish(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// finish waits for the concurrent work of a daemon whose loop does not run. It discards
// the answers of switches, such as those of the manager's leaf, which is read once a
// second.
func (d *Daemon) finish() {
	done := make(chan struct{})
	go func() { d.work.Wait(); close(done) }()
	for {
		select {
		case <-d.probe.Answers:
		case <-done:
			return
		}
	}
}

// dump returns OpenSM's dump of the fabric.
func dump(f *topology.Fabric) opensm.Snapshot {
	now := time.Now()
	return opensm.Snapshot{Fabric: f, SeenAt: now, CompleteAt: now, Swept: true}
}

// next waits for the result of the current action.
func (d *Daemon) next(ctx context.Context, t testing.TB) controller.Event {
	t.Helper()
	select {
	case e := <-d.inbox.answers:
		return e
	case <-ctx.Done():
		t.Fatal("no answer")
		return nil
	}
}

// tablesOf returns the tables of a view.
func tablesOf(v *view.View) (*lft.Tables, error) {
	r, err := v.Route(context.Background(), nil, planner.Settings{})
	return r.Tables, err
}

// ask posts a body to a handler and returns the answer's status and body.
func ask(ctx context.Context, h http.Handler, body string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body)))
	return w.Code, w.Body.String()
}
