package tomography

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// exchange is a fabric with a plan, its tables, and the times of an exchange by the plan.
type exchange struct {
	fabric *topology.Fabric
	tables *lft.Tables
	plan   *phasetable.View
	times  api.ExchangeTimes
}

// timed makes the times of an exchange in which what leaves by a port takes half as long again.
// Each host has a clock of its own.
func timed(t testing.TB, spec fabgen.Spec, slow topology.PortRef) *exchange {
	t.Helper()
	x := &exchange{fabric: fabgen.Generate(spec)}
	result, err := planner.Make(t.Context(), fabgen.Fitted(t, x.fabric), planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	x.tables = result.Tables
	data, err := phasetable.Encode(result.Table(7))
	if err != nil {
		t.Fatal(err)
	}
	if x.plan, err = phasetable.Decode(data); err != nil {
		t.Fatal(err)
	}
	at := map[any]topology.PortRef{}
	for _, h := range x.fabric.ConnectedHosts() {
		at[h.GUID] = h.PortRef
	}
	rng := rand.New(rand.NewPCG(6, 1))
	n, phases := x.plan.Servers(), x.plan.Phases()
	x.times.Bytes = 1 << 20
	clock := make([]int64, n)
	for s := range n {
		clock[s] = rng.Int64N(1e9)
		x.times.Servers = append(x.times.Servers, api.ServerTimes{GUID: x.plan.Server(s).GUID, Sent: make([]int64, phases), Received: make([]int64, phases)})
	}
	for p := range phases {
		x.times.Phases = append(x.times.Phases, uint32(p))
		for s := range n {
			e := x.plan.At(s, p)
			if e.SendTo == phasetable.Idle {
				continue
			}
			took := 42_000 + rng.Int64N(4000)
			hops, err := x.tables.Trace(x.fabric, at[x.plan.Server(s).GUID], e.DLID)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(hops, func(h lft.Hop) bool { return h.Node == slow.Node && h.Out == slow.Port }) {
				took += took / 2
			}
			begin := int64(p+1) * 100_000
			x.times.Servers[s].Sent[p] = clock[s] + begin
			x.times.Servers[e.SendTo].Received[p] = clock[e.SendTo] + begin + took
		}
	}
	return x
}

// TestTimes finds a slow link by the times of an exchange by a plan, of which some servers and
// phases are missing, and the throughput of each cable.
func TestTimes(t *testing.T) {
	spec := fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}
	f := fabgen.Generate(spec)
	slow := topology.PortRef{Node: f.Find(fabgen.LeafGUID + 2)}
	slow.Port = f.Trunks(slow.Node)[1]
	x := timed(t, spec, slow)
	x.times.Servers = x.times.Servers[1:]
	sent, err := SentBy(x.plan, &x.times)
	if err != nil || len(sent) != 15*14 {
		t.Fatalf("%d transfers, %v", len(sent), err)
	}
	r, err := Measure(x.fabric, x.tables, sent, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Slow) != 1 || r.Slow[0].Name != "Leaf002 port 6 → Spine001 port 3" {
		t.Fatalf("%v", describe(r))
	}
	for i := range r.Cables {
		c := &r.Cables[i]
		is := c.A.GUID == fabgen.LeafGUID+2 && c.A.Port == slow.Port
		low, high := 180.0, 201.0 // 1 MiB in 42 to 46 µs
		if is {
			low, high = 121, 134
		}
		if c.Slow != is || c.Gbps < low || c.Gbps > high {
			t.Errorf("%+v", c)
		}
	}
	if len(r.Cables) < 30 {
		t.Errorf("%d cables are measured", len(r.Cables))
	}
}

// TestHostileTimes refuses times that cannot be those of an exchange by the plan.
func TestHostileTimes(t *testing.T) {
	good := timed(t, fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1}, topology.PortRef{Node: topology.None})
	text, err := json.Marshal(&good.times)
	if err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(x *api.ExchangeTimes){
		"want the size":                      func(x *api.ExchangeTimes) { x.Bytes = 0 },
		"the phases of the":                  func(x *api.ExchangeTimes) { x.Phases[2] = 3 },
		"phases: 9 at place 2":               func(x *api.ExchangeTimes) { x.Phases[2] = 9 },
		"the plan has no 0x0000000000000005": func(x *api.ExchangeTimes) { x.Servers[1].GUID = 5 },
		"occurs twice":                       func(x *api.ExchangeTimes) { x.Servers[1].GUID = x.Servers[0].GUID },
		"has 1 times sent":                   func(x *api.ExchangeTimes) { x.Servers[1].Sent = x.Servers[1].Sent[:1] },
		"want at most 2^52":                  func(x *api.ExchangeTimes) { x.Servers[1].Received[0] = -1 << 62 },
		"both its times":                     func(x *api.ExchangeTimes) { x.Servers = x.Servers[:1] },
	} {
		var x api.ExchangeTimes
		if err := json.Unmarshal(text, &x); err != nil {
			t.Fatal(err)
		}
		spoil(&x)
		if _, err := SentBy(good.plan, &x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// BenchmarkMeasure evaluates the times of an exchange of 360 servers, beginning with the JSON.
func BenchmarkMeasure(b *testing.B) {
	spec := fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}
	f := fabgen.Generate(spec)
	leaf := f.Find(fabgen.LeafGUID + 2)
	x := timed(b, spec, topology.PortRef{Node: leaf, Port: f.Trunks(leaf)[1]})
	text, err := json.Marshal(&x.times)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var times api.ExchangeTimes
		if err := json.Unmarshal(text, &times); err != nil {
			b.Fatal(err)
		}
		sent, err := SentBy(x.plan, &times)
		if err != nil {
			b.Fatal(err)
		}
		r, err := Measure(x.fabric, x.tables, sent, false)
		if err != nil || len(r.Slow) == 0 {
			b.Fatal(fmt.Sprint(err, describe(r)))
		}
	}
}
