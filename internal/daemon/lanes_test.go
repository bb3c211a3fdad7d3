package daemon

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// hostPorts requests the host ports from a daemon.
func hostPorts(t *testing.T, d *Daemon) (out api.HostPorts) {
	t.Helper()
	w := httptest.NewRecorder()
	interfaces(d.components).Mount[api.Reader]["GET /v1/hosts"].ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/hosts", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	ok(t, json.Unmarshal(w.Body.Bytes(), &out))
	return out
}

// TestHostPorts checks the ports that are down or slow, in the order of the leaves.
func TestHostPorts(t *testing.T) {
	d := readable(newDaemon(t))
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	d.atRest(t, f)
	all := hostPorts(t, d)
	if len(all.Hosts) != 16 || all.Lanes != 4 || slices.ContainsFunc(all.Hosts, func(h api.HostPort) bool { return h.Percent != 100 }) {
		t.Fatalf("%+v", all)
	}
	worse := f.Clone()
	port := func(name string) topology.PortRef {
		return topology.PortRef{Node: int32(slices.IndexFunc(worse.Nodes, func(n topology.Node) bool { return n.Name == name })), Port: 1}
	}
	slow := worse.At(port(all.Hosts[3].Name))
	slow.Rate.Width /= 2
	worse.Disconnect(port(all.Hosts[6].Name))
	d.atRest(t, worse)
	now := hostPorts(t, d)
	if len(now.Hosts) != len(all.Hosts) {
		t.Fatalf("%+v", now)
	}
	for i, h := range now.Hosts {
		want := all.Hosts[i]
		switch i {
		case 3:
			want.Percent = 50
		case 6:
			want.Percent = 0
		}
		if h != want {
			t.Errorf("host %d: %+v, want %+v", i, h, want)
		}
	}
	other := liquidly(t)
	program(t, other, shortest(fabgen.Dragonfly(4, 3, 1)))
	show(t, other, fabgen.Dragonfly(4, 3, 1))
	otherPlan(t, other)
	if got := hostPorts(t, other); got.Lanes != 0 || len(got.Hosts) != 12 || other.cfg.Planning.OtherFabrics != config.OtherLiquid {
		t.Errorf("of a dragonfly: %+v", got)
	}
	if status, answer := ask(t.Context(), interfaces(other.components).Mount[api.Viewer]["POST /v1/gpu/lanes"], `{"bytes_per_second":1,"latency_seconds":0}`); status != http.StatusConflict || !strings.Contains(answer, "not a fat tree of two levels") {
		t.Errorf("lanes of a dragonfly: %d %s", status, answer)
	}
}

// TestLanesOnTheFabric pins an exchange to the lanes of the daemon's fabric, and in a
// different way after a cable has died.
func TestLanesOnTheFabric(t *testing.T) {
	d := readable(newDaemon(t))
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	q := lanes.Request{BytesPerSecond: 50e9, LatencySeconds: 1e-5}
	d.atRest(t, f)
	for _, h := range hostPorts(t, d).Hosts {
		q.Hosts = append(q.Hosts, h.GUID.String())
	}
	for shift := 1; shift < len(q.Hosts); shift++ {
		var stage lanes.Stage
		for from := range q.Hosts {
			stage = append(stage, lanes.Send{From: int32(from), To: int32((from + shift) % len(q.Hosts)), Bytes: int64(1000 * (1 + (from*7+shift*3)%5))})
		}
		q.Stages = append(q.Stages, stage)
	}
	pinned := func(q *lanes.Request, want int) (x lanes.Plan, answer string) {
		t.Helper()
		body, err := json.Marshal(q)
		ok(t, err)
		status, answer := ask(t.Context(), interfaces(d.components).Mount[api.Viewer]["POST /v1/gpu/lanes"], string(body))
		if status != want {
			t.Fatalf("%d %.500s", status, answer)
		}
		if status == http.StatusOK {
			ok(t, json.Unmarshal([]byte(answer), &x), x.Carries(q))
		}
		return x, answer
	}
	before, _ := pinned(&q, http.StatusOK)
	d.atRest(t, lacking(f, 4, 1, 2))
	after, _ := pinned(&q, http.StatusOK)
	for _, p := range after.Parts {
		for _, x := range p.Transfers {
			if leaf, peer := x.From/4, x.To/4; (leaf == 1 || peer == 1) && leaf != peer && x.Lane == 2 {
				t.Errorf("%+v goes over the dead cable", x)
			}
		}
	}
	if len(after.Parts) <= len(before.Parts) || before.Lanes != 4 {
		t.Errorf("%d parts on %d lanes, and %d after a cable died", len(before.Parts), before.Lanes, len(after.Parts))
	}
	q.Hosts[0] = "nobody"
	if _, answer := pinned(&q, http.StatusBadRequest); !strings.Contains(answer, "nobody is not a host of the fabric") {
		t.Error(answer)
	}
	q.Hosts, q.Stages = []string{"", ""}, []lanes.Stage{make(lanes.Stage, 1<<18+1)}
	if _, answer := pinned(&q, http.StatusBadRequest); !strings.Contains(answer, "this takes 262144 at most") {
		t.Error(answer)
	}
}
