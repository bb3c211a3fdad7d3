package daemon

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// exchangeTimes makes the times of an exchange by a plan on the tables in the switches. What leaves by
// a port takes half as long again.
func exchangeTimes(t *testing.T, s *site, plan *phasetable.View, slow topology.PortRef) string {
	t.Helper()
	f, tables := s.state.Now().Latest.Fabric, s.desk.InSwitches()
	rng := rand.New(rand.NewPCG(1, 1))
	x := api.ExchangeTimes{Bytes: 1 << 20}
	for n := range plan.Servers() {
		x.Servers = append(x.Servers, api.ServerTimes{GUID: plan.Server(n).GUID, Sent: make([]int64, plan.Phases()), Received: make([]int64, plan.Phases())})
	}
	for p := range plan.Phases() {
		x.Phases = append(x.Phases, uint32(p))
		for n := range plan.Servers() {
			e := plan.At(n, p)
			if e.SendTo == phasetable.Idle {
				continue
			}
			from := slices.IndexFunc(f.ConnectedHosts(), func(h topology.EndPort) bool { return h.GUID == plan.Server(n).GUID })
			hops, err := tables.Trace(f, f.ConnectedHosts()[from].PortRef, e.DLID)
			ok(t, err)
			took := 42_000 + rng.Int64N(4000)
			if slices.ContainsFunc(hops, func(h lft.Hop) bool { return h.Node == slow.Node && h.Out == slow.Port }) {
				took += took / 2
			}
			x.Servers[n].Sent[p] = int64(p+1) * 100_000
			x.Servers[e.SendTo].Received[p] = int64(p+1)*100_000 + took
		}
	}
	text, err := json.Marshal(&x)
	ok(t, err)
	return string(text)
}

// TestMeasured posts the times of exchanges by the plan. A slow cable is suspect, and isolated
// where that is allowed for slow cables; what is wrong with other requests is said, and changes
// nothing.
func TestMeasured(t *testing.T) {
	for _, isolates := range []bool{false, true} {
		s := running(t, fabric(4, 4), func(d *Daemon) {
			d.cables.Settings.Mode, d.cables.Settings.IsolateSlow, d.cables.MaxCost = cablehealth.Isolate, isolates, 100
			d.cables.Resume(time.Now(), cables.Kept{})
			d.cfg.API.ReadOverTCP = true
		})
		e := s.state.Now().Epoch
		f := s.state.Now().Latest.Fabric
		leaf := int32(slices.IndexFunc(f.Nodes, func(n topology.Node) bool { return n.Name == "Leaf002" }))
		slow := topology.PortRef{Node: leaf, Port: f.Trunks(leaf)[1]}
		h := server.Handler(interfaces(s.components), true) // as a rank on another host asks
		ask := func(path, kind, body string) (int, string) {
			r := httptest.NewRequestWithContext(s.ctx, http.MethodPost, path, strings.NewReader(body))
			r.Host = "localhost"
			r.Header.Set("Content-Type", kind)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		path := fmt.Sprintf("/v1/plan/times?epoch=%d", e.Epoch)
		good := exchangeTimes(t, s, e.Plan, slow)
		for _, c := range []struct {
			path, kind, body string
			code             int
			text             string
		}{
			{path, "text/plain", good, 415, "takes Content-Type"},
			{"/v1/plan/times", api.MediaJSON, good, 400, "epoch=: want a number"},
			{"/v1/plan/times?epoch=77", api.MediaJSON, good, 410, "no table of epoch 77"},
			{"/v1/jobs/none/times?epoch=77", api.MediaJSON, good, 404, "none"},
			{path, api.MediaJSON, good[:len(good)/2], 400, "unexpected EOF"},
			{path, api.MediaJSON, `{"bytes":1,"lanes":2}`, 400, "lanes"},
			{path, api.MediaJSON, `{"bytes":1,"phases":[99],"servers":[]}`, 400, "the phases of the plan"},
			{path, api.MediaJSON, `{"bytes":1,"phases":[0],"servers":[` + strings.Repeat(" ", 8<<20) + `]}`, 413, "longer than"},
		} {
			if code, text := ask(c.path, c.kind, c.body); code != c.code || !strings.Contains(text, c.text) {
				t.Errorf("%s: %d %.200s, want %d %s", c.path, code, text, c.code, c.text)
			}
		}
		if list := s.backend.Cables.Answer(s.state.Now().Latest.Tree, nil); slices.ContainsFunc(list.Cables, func(c api.Cable) bool { return c.Timed != nil }) {
			t.Error("a refused request has measured a cable")
		}
		code, text := ask(path, api.MediaJSON, good)
		var m api.Measured
		ok(t, json.Unmarshal([]byte(text), &m))
		if code != 200 || len(m.Slow) != 1 || m.Epoch != e.Epoch || m.Slow[0].Name != "Leaf002 port 6 → Spine001 port 3" {
			t.Fatalf("%d %.500s", code, text)
		}
		if isolates {
			s.settles(func(*store.Epoch, *view.View) bool { return len(s.state.Now().Held) == 1 })
		}
		want := "suspect"
		if isolates {
			want = "isolated"
		}
		for _, c := range s.backend.Cables.Answer(s.state.Now().Latest.Tree, nil).Cables {
			is := c.Leaf.Name == "Leaf002" && c.Leaf.Port == slow.Port
			if c.Timed == nil || c.Timed.Slow != is || is != (c.State == want) || is && c.Timed.Gbps > 134 || !is && c.Timed.Gbps < 180 {
				t.Errorf("isolates: %v, %s port %d: %s, %v, %+v", isolates, c.Leaf.Name, c.Leaf.Port, c.State, c.Why, c.Timed)
			}
		}
		s.settles(func(*store.Epoch, *view.View) bool { // events are stored in a goroutine
			past, err := s.history.History(s.ctx, api.HistoryQuery{Kinds: []string{api.KindCable}})
			ok(t, err)
			return slices.ContainsFunc(past.Entries, func(e api.HistoryEntry) bool { return strings.Contains(string(e.Event.Data), "% longer than others") })
		})
		w := httptest.NewRecorder()
		s.backend.Metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if !strings.Contains(w.Body.String(), "forsd_cables_slow 1") {
			t.Error("the metrics have no slow cable")
		}
		s.cancel()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
	}
}
