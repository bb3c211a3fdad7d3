package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// asCSV writes a cabling in NDT's format.
func asCSV(c *api.Cabling, shuffle *rand.Rand) string {
	rows := []string{}
	for i := range c.Links {
		a, b := &c.Links[i].A, &c.Links[i].B
		if shuffle != nil && shuffle.IntN(2) == 0 {
			a, b = b, a
		}
		rows = append(rows, fmt.Sprintf(",,%s,Port %d,,%s,Port %d,,,Data,HDR,,,,,,,,Active,In-Scope", a.Name, a.Port, b.Name, b.Port))
	}
	if shuffle != nil {
		shuffle.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	return "rack #,U height,#Fields:StartDevice,StartPort,StartDeviceLocation,EndDevice,EndPort,EndDeviceLocation,U height_1,LinkType,Speed,_2,Cable Length,_3,_4,_5,_6,_7,State,Domain\n" + strings.Join(rows, "\n") + "\n"
}

func compare(t testing.TB, intended string, f *topology.Fabric) *Comparison {
	t.Helper()
	wanted, err := ReadIntended([]byte(intended))
	if err != nil {
		t.Fatal(err)
	}
	out, err := Compare(wanted, describe.Cabling(f, now), false)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDifferences damages fabrics at random, each cable in at most one way, and checks that a
// comparison with the earlier CSV reports exactly the damage.
func TestDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := fabgen.Generate(fabgen.Spec{Spines: rapid.IntRange(2, 5).Draw(t, "spines"), Leaves: rapid.IntRange(2, 5).Draw(t, "leaves"), Shuffle: 3})
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		before := describe.Cabling(f, now)
		intended := asCSV(before, rng)
		f = f.Clone()
		at := func(e *api.LinkEnd) topology.PortRef { return topology.PortRef{Node: f.Find(e.GUID), Port: e.Port} }
		want := map[string]int{Missing: 0, Extra: 0, Swapped: 0, Degraded: 0}
		order := rng.Perm(len(before.Links))
		next := func() *api.Link {
			l := &before.Links[order[0]]
			order = order[1:]
			return l
		}
		for range rapid.IntRange(0, 4).Draw(t, "faults") {
			if len(order) < 3 {
				break
			}
			rate := ib.Rate{Width: 4, Speed: ib.HDR}
			switch kind := rng.IntN(3); kind {
			case 0:
				f.Disconnect(at(&next().A))
				want[Missing]++
			case 1: // swap two cables
				x, y := next(), next()
				f.Disconnect(at(&x.A))
				f.Disconnect(at(&y.A))
				f.Connect(at(&x.A), at(&y.A), rate)
				f.Connect(at(&x.B), at(&y.B), rate)
				want[Swapped] += 2
			case 2:
				x := next()
				f.Disconnect(at(&x.A))
				f.Connect(at(&x.A), at(&x.B), ib.Rate{Width: 2, Speed: ib.HDR})
				want[Degraded]++
			}
		}
		for _, c := range []*Comparison{compareWith(t, intended, f), compareWith(t, "", f, before)} {
			for kind, n := range want {
				if c.Counts[kind] != n {
					t.Fatalf("%d %s, want %d: %+v", c.Counts[kind], kind, n, c.Differences)
				}
			}
		}
		// In the reverse comparison, missing cables are extra.
		c, err := Compare(ofCabling(describe.Cabling(f, now)), before, false)
		if err != nil || c.Counts[Extra] != want[Missing] || c.Counts[Missing] != 0 {
			t.Fatalf("%+v: %v", c, err)
		}
	})
}

// compareWith compares with a CSV, or with a saved cabling.
func compareWith(t *rapid.T, intended string, f *topology.Fabric, kept ...*api.Cabling) *Comparison {
	var wanted []Wanted
	var err error
	if len(kept) > 0 {
		wanted = ofCabling(kept[0])
	} else if wanted, err = ReadIntended([]byte(intended)); err != nil {
		t.Fatal(err)
	}
	out, err := Compare(wanted, describe.Cabling(f, now), false)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBaselines compares fabrics of two levels and of three with their own baselines.
func TestBaselines(t *testing.T) {
	two := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, Cables: 2, LMC: 3})
	base, err := topology.NewBaseline(two)
	if err != nil {
		t.Fatal(err)
	}
	three := fabgen.Pods(fabgen.PodSpec{Pods: 3, Leaves: 2, Spines: 2, Tops: 4, Hosts: 2})
	pods, err := topology.NewPodBaseline(three)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		f *topology.Fabric
		b *topology.Baseline
	}{"two": {two, base}, "three": {three, &topology.Baseline{Pods: pods}}} {
		wanted := OfBaseline(x.b)
		c := describe.Cabling(x.f, now)
		got, err := Compare(wanted, c, false)
		if err != nil || len(got.Differences) > 0 || got.Cables != len(c.Links) {
			t.Errorf("%s levels: %d cables of %d, %+v: %v", name, got.Cables, len(c.Links), got.Differences, err)
		}
	}
}

// TestBadInput checks the position and the remedy in the error for each mistake.
func TestBadInput(t *testing.T) {
	const head = "StartDevice,StartPort,EndDevice,EndPort,Speed\n"
	for name, c := range map[string]struct{ text, want string }{
		"nothing":       {"", "neither a CSV of cables, whose first line names the columns"},
		"other text":    {"a,b,c\n1,2,3\n", "neither a CSV of cables"},
		"no column":     {"StartDevice,EndDevice,EndPort\n", "line 1: there is no column startport: the columns"},
		"no cable":      {head, "there is no cable in it"},
		"no device":     {head + "\nLeaf1,Port 1,,Port 2\n", "line 3, column 14: there is no device: give its node description or GUID"},
		"no port":       {head + "Leaf1,Port one,Spine1,Port 2\n", `line 2, column 7: "Port one" is not a port: want Port N, N, or of a director Blade N_Port N/N`},
		"director":      {head + "Leaf1,1,Dir1,Blade 2_Port 1\n", "line 2, column 14: \"Blade 2_Port 1\" is not a port"},
		"big port":      {head + "Leaf1,999,Spine1,1\n", "want 1 to 254"},
		"port zero":     {head + "Leaf1,0,Spine1,1\n", "want 1 to 254"},
		"cut off":       {head + "Leaf1,1,Spine1\n", "line 2, column"},
		"quotes":        {head + "Leaf\"1,1,Spine1,1\n", "line 2, column 5: bare \" in non-quoted-field: put texts with commas or quotes into quotes"},
		"itself":        {head + "Leaf1,1,LEAF1,P1\n", "line 2, column 15: the cable joins Leaf1 port 1 to itself"},
		"speed":         {head + "Leaf1,1,Spine1,1,fast\n", `line 2, column 18: "fast" is not a speed: want such as HDR, 4xHDR or 200`},
		"only disabled": {"StartDevice,StartPort,EndDevice,EndPort,State\nLeaf1,1,,,Disabled\n", "there is no cable in it"},
	} {
		_, err := ReadIntended([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})
	f.Nodes[f.Find(fabgen.SpineGUID)].Name = "Spine001"
	wanted, err := ReadIntended([]byte(head + "Leaf000,3,Spine001,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Compare(wanted, describe.Cabling(f, now), false); err == nil || !strings.Contains(err.Error(), "line 2: 2 nodes are called Spine001, such as 0x0000000000300000 and") {
		t.Error(err)
	}
}

// TestForms reads other formats of the same cables.
func TestForms(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})
	for name, text := range map[string]string{
		"spaces and a byte order mark": "\ufeffkept by anna\nStart Device,Start Port,End Device,End Port,Link Type\nLEAF000,3,spine000,PORT 1,Data\nLeaf000,4,Leaf000,4,Power\n",
		"another order":                "End_Port,End_Device,Start_Port,Start_Device\r\n1,Spine000,3,Leaf000\r\n",
		"GUIDs and a number":           "StartDevice,StartPort,EndDevice,EndPort,Speed\n0x200000,Port 3,0x0000000000300000,Port 1,200G\n# Leaf9,1,Leaf8,1\n",
	} {
		c := compare(t, text, f)
		if c.Cables != 1 || c.Counts[Missing]+c.Counts[Swapped]+c.Counts[Degraded] != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := compare(t, "StartDevice,StartPort,EndDevice,EndPort,Speed\nLeaf000,3,Spine000,1,NDR\nLeaf000,9,Spine000,9,\n", f); c.Counts[Degraded] != 1 || c.Counts[Missing] != 1 {
		t.Errorf("%+v", c)
	}
}

// TestDirectors reads an NDT file like those in UFM's tests: devices by name, ports of
// directors by board and chip, each cable from both ends, and speeds in Mbit/s.
func TestDirectors(t *testing.T) {
	f := fabgen.Directors(1)
	port := func(n *topology.Node, p uint8) string {
		d := ofDevice(n.Name)
		if d == nil {
			t.Fatalf("%q is not the name of a device", n.Name)
		}
		name := strings.ToUpper(d.name)
		var board, chip int
		if _, err := fmt.Sscanf(d.board, "/L%d/U%d", &board, &chip); err == nil {
			return fmt.Sprintf("%s,Blade %02d_Port %d/%d", name, board, chip, p)
		}
		return fmt.Sprintf("%s,Port %d", name, p)
	}
	ndt, cables, hosts := "rack,#Fields:StartDevice,StartPort,EndDevice,EndPort,LinkType,Speed\n", 0, 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for p := range n.Ports {
			x := &n.Ports[p]
			switch {
			case !x.Connected() || n.Kind != topology.Switch:
			case f.Nodes[x.Peer].Kind != topology.Switch:
				hosts++
			case n.GUID < fabgen.MidGUID || f.Nodes[x.Peer].GUID < fabgen.MidGUID: // all others are inside directors
				ndt += fmt.Sprintf("1,%s,%s,Data,200000\n", port(n, uint8(p)), port(&f.Nodes[x.Peer], x.PeerPort))
				cables++
			}
		}
	}
	c := compare(t, ndt, f)
	if c.Cables != cables/2 || c.Counts[Missing]+c.Counts[Swapped]+c.Counts[Degraded] != 0 || c.Counts[Extra] != hosts {
		t.Errorf("%d of %d cables, %d hosts: %+v", c.Cables, cables/2, hosts, c.Counts)
	}
	fabgen.Fails(t, "MF0;rack-02:MQM8700/U1/6")(f)
	c = compare(t, ndt, f)
	if len(c.Differences) == 0 || c.Counts[Missing] != 1 || c.Differences[0].Cable != "RACK-02 port 6 – CORE-1/L01/U2 port 2" {
		t.Errorf("%+v", c)
	}
}

// TestRivals checks that if two rows use one port, one of them is a difference with a reason.
func TestRivals(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})
	c := compare(t, "StartDevice,StartPort,EndDevice,EndPort\nLeaf000,3,Spine000,1\nLeaf001,3,Spine000,1\n", f)
	if c.Counts[Swapped] != 1 || c.Differences[0].Line != 3 || c.Differences[0].Now[0] != "line 2 of the file wants another cable in one of its ports" {
		t.Errorf("%+v", c)
	}
}

// TestAvailability checks availability against a constructed history.
func TestAvailability(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	base, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	g := f.Clone()
	leaf := func(l int) ib.GUID { return fabgen.LeafGUID + ib.GUID(l) }
	spine := func(k int) ib.GUID { return fabgen.SpineGUID + ib.GUID(k) }
	g.Disconnect(topology.PortRef{Node: g.Find(leaf(0)), Port: 6}) // to spine 1, permanently
	g.Disconnect(topology.PortRef{Node: g.Find(leaf(1)), Port: 5}) // to spine 0, while forsd was stopped
	begin := now.Add(-10 * time.Hour)
	link := func(hour float64, kind topology.ChangeKind, l, k int) api.HistoryEntry {
		c := topology.Change{Kind: kind, At: topology.CableEnd{Node: leaf(l), Port: uint8(5 + k)}, Peer: topology.CableEnd{Node: spine(k), Port: uint8(1 + l)}}
		if kind == topology.ChangeNodeGone || kind == topology.ChangeNodeNew {
			c.At, c.Peer = topology.CableEnd{Node: spine(k)}, topology.CableEnd{}
		}
		raw, _ := json.Marshal(c)
		return api.HistoryEntry{Event: api.Event{Kind: api.KindLink, Data: raw}, At: begin.Add(time.Duration(hour * float64(time.Hour)))}
	}
	entries := []api.HistoryEntry{
		link(1, topology.ChangeCableUp, 2, 2), // the cable was down before
		link(2, topology.ChangeCableDown, 0, 0), link(3, topology.ChangeCableUp, 0, 0),
		link(3.5, topology.ChangeCableDown, 0, 3), link(4, topology.ChangeNodeGone, 0, 3), link(5, topology.ChangeNodeNew, 0, 3), link(5.5, topology.ChangeCableUp, 0, 3),
		{Event: api.Event{Kind: api.KindStart, Data: json.RawMessage(`{}`)}, At: begin.Add(6 * time.Hour)},
		link(7, topology.ChangeCableDown, 0, 1),
		link(8, topology.ChangeCableDown, 0, 0), link(8.5, topology.ChangeCableUp, 0, 0),
		{Event: api.Event{Kind: api.KindStart, Data: json.RawMessage(`{}`)}, At: begin.Add(9 * time.Hour)},
	}
	entries = append(entries, link(5.75, topology.ChangeCableUp, 1, 0)) // its later failure is only seen at the last start
	slices.SortStableFunc(entries, func(a, b api.HistoryEntry) int { return a.At.Compare(b.At) })
	for until, want := range map[time.Duration]map[string]float64{
		0: {"Leaf000 port 5": 8.5, "Leaf000 port 6": 7, "Leaf000 port 8": 8, "Leaf001 port 8": 9, "Leaf002 port 8": 9, "Leaf002 port 7": 9, "Leaf001 port 5": 3.25, "Leaf001 port 6": 10},
		2: {"Leaf000 port 5": 7, "Leaf000 port 6": 7, "Leaf000 port 8": 6, "Leaf001 port 6": 8},
	} {
		period := Span{begin, now.Add(-until * time.Hour)}
		got := map[string]float64{}
		for _, x := range availability(OfBaseline(base), describe.Cabling(g, now), entries, period, now) {
			name, _, _ := strings.Cut(x.Cable, " – ")
			got[name] = x.Share * period.To.Sub(period.From).Hours()
		}
		if len(got) != 12 {
			t.Errorf("%d cables", len(got))
		}
		for cable, hours := range want {
			if d := got[cable] - hours; d > 1e-6 || d < -1e-6 {
				t.Errorf("%v: %s was up for %v hours, want %v", until, cable, got[cable], hours)
			}
		}
	}
}

// facts returns the data of a fabric with a cable down and a name with markup in it.
func facts(t testing.TB) *Facts {
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	f.Nodes[f.Find(fabgen.LeafGUID)].Name = `<img src="http://evil/x">&"]]>`
	g := f.Clone()
	tree := fabgen.Fitted(t, g, fabgen.Fails(t, fabgen.LeafGUID.String()+"/6"))
	base := tree.Baseline
	event := func(kind string, after time.Duration, data any) api.HistoryEntry {
		raw, _ := json.Marshal(data)
		return api.HistoryEntry{Event: api.Event{Kind: kind, Data: raw}, At: now.Add(-time.Hour + after)}
	}
	changes := topology.Diff(f, g)
	epoch := func(n uint64, after time.Duration, what ...string) api.HistoryEntry {
		e := api.Epoch{Epoch: n, PublishedAt: now.Add(-time.Hour + after), What: what}
		e.Phases, e.LowerBound = 11+int(n), 11
		return event(api.KindEpoch, after, e)
	}
	return &Facts{Now: now, Period: Span{now.Add(-100 * time.Hour), now.Add(time.Hour)}, First: now.Add(-2 * time.Hour), Status: &api.Status{Version: "1", Fabric: "plane-3", State: "idle"},
		Topology: describe.Topology(tree, now), Cabling: describe.Cabling(g, now), Baseline: base, Intended: ofCabling(describe.Cabling(f, now)),
		Entries: []api.HistoryEntry{epoch(1, -time.Minute, "forsd was started"), event(api.KindLink, 0, changes[0]), epoch(2, 8*time.Millisecond, changes[0].Text),
			event(api.KindLink, time.Minute, changes[0]), epoch(3, time.Minute+300*time.Millisecond), epoch(4, 2*time.Minute)}}
}

// TestReport checks the content of a report, and that the page loads no other resources.
func TestReport(t *testing.T) {
	r, err := Make(facts(t))
	if err != nil {
		t.Fatal(err)
	}
	if r.Period != (Span{now.Add(-2 * time.Hour), now}) || r.Baseline.Counts[Missing] != 1 || r.Intended.Counts[Missing] != 1 || len(r.Intended.Differences) != 1 {
		t.Errorf("%+v %+v %+v", r.Period, r.Baseline, r.Intended)
	}
	if x := r.Cables[0]; x.Faults != 1 || x.Share != 0.5 || len(r.Cables) != 12 {
		t.Errorf("%+v", x)
	}
	if r.Faults != (Percentiles{2, 0.008, 0.3, 0.3}) || len(r.Plans) != 4 || r.Plans[3].Gap != 4 || r.Plans[3].AfterSeconds != 0 || r.Plans[0].Fault {
		t.Errorf("%+v %+v", r.Faults, r.Plans)
	}
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if !strings.Contains(text, "<h1>Fabric report of plane-3</h1>") {
		t.Error("the report does not name the fabric")
	}
	if strings.Contains(text, "<img") || regexp.MustCompile(`(?i)\s(src|href|action)\s*=|url\(|@import|<script|<link|<iframe`).MatchString(strings.ReplaceAll(text, "&lt;img src=", "")) {
		t.Error("the page asks for something, or a name is taken for a tag")
	}
	if n := strings.Count(text, "<svg"); n != 4 || strings.Contains(text, "NaN") || strings.Contains(text, "ZgotmplZ") || !strings.Contains(text, "default-src 'none'") {
		t.Errorf("%d pictures", n)
	}
	if raw, err := json.Marshal(r); err != nil || !bytes.Contains(raw, []byte(`"fault_to_plan":{"count":2,"median_seconds"`)) || !bytes.Contains(raw, []byte(`"after_seconds":0.008`)) {
		t.Errorf("%s: %v", raw, err)
	}
	empty := facts(t)
	empty.Entries, empty.Intended, empty.First = nil, nil, time.Time{}
	if r, err = Make(empty); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	empty.Period.To = now.Add(-200 * time.Hour)
	if _, err := Make(empty); err == nil {
		t.Error("a report of no time is made")
	}
}

// FuzzReadIntended checks that no input causes a panic.
func FuzzReadIntended(f *testing.F) {
	f.Add([]byte("StartDevice,StartPort,EndDevice,EndPort,Speed\nLeaf1,Port 1,Spine1,2,HDR\n"))
	f.Add([]byte("#StartDevice,StartPort,EndDevice,EndPort\nRACK-1,Port 21,CORE-1,Blade 16_Port 2/20\nCORE-1,Blade 16_Port 2/20,RACK-1,Port 21\n"))
	f.Add([]byte("rack #,#Fields:StartDevice,StartPort,EndDevice,EndPort\n,0x1,1,0x2,2\n\"a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if wanted, err := ReadIntended(data); err == nil && len(wanted) > 0 {
			if _, err := Compare(wanted, &api.Cabling{}, len(data)%2 == 0); err != nil {
				t.Error(err)
			}
		}
	})
}
