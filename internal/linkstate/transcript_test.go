package linkstate

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/transcripts"
	"github.com/forsd/forsd/topology"
)

// TestTranscripts replays the files in testdata. "links" creates a link state and a fat
// tree. Each line of "events" is one event; the output is the actions.
func TestTranscripts(t *testing.T) {
	transcripts.Run(t, func(*testing.T) transcripts.Block {
		s := &stage{}
		events := transcripts.Events(s.event)
		return func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "links" {
				return s.begin(t, d)
			}
			return events(t, d)
		}
	})
}

// stage is a link state with its fat tree.
type stage struct {
	links *Links
	whole *topology.Fabric
	now   time.Time
}

var start = time.Unix(1e9, 0)

// begin reads "links spines=N leaves=N [cables=N] [blind] [discover=DURATION]".
func (s *stage) begin(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	spec, set := fabgen.Spec{Cables: 1}, Settings{Reads: !d.HasArg("blind")}
	d.ScanArgs(t, "spines", &spec.Spines)
	d.ScanArgs(t, "leaves", &spec.Leaves)
	d.MaybeScanArgs(t, "cables", &spec.Cables)
	var every string
	if d.MaybeScanArgs(t, "discover", &every) {
		set.DiscoverEvery = duration(t, every)
	}
	s.whole, s.links, s.now = fabgen.Generate(spec), New(set), start
	for i := range s.whole.Nodes {
		if n := &s.whole.Nodes[i]; n.Kind == topology.Switch && d.HasArg("ports") {
			fmt.Fprintf(&out, "%s LID %d:", n.Name, n.LID())
			for _, p := range s.whole.Trunks(int32(i)) {
				fmt.Fprintf(&out, " %d–%s/%d", p, s.whole.Nodes[n.Ports[p].Peer].Name, n.Ports[p].PeerPort)
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

// event reads one line, and writes the actions that follow and the time of the next tick.
func (s *stage) event(t *testing.T, line string, out *strings.Builder) {
	fmt.Fprintf(out, "> %s\n", line)
	for _, a := range s.links.Step(s.now, s.parse(t, line)) {
		fmt.Fprintf(out, "  %s\n", s.say(a))
	}
	if state := s.state(); state != "" {
		fmt.Fprintf(out, "  = %s\n", state)
	}
}

// state describes the link state: the lost ends of cables, the switches being read, and
// the time of the next tick.
func (s *stage) state() string {
	var said []string
	for _, x := range s.links.losses {
		said = append(said, fmt.Sprintf("%s/%d is lost", s.name(x.end.node), x.end.port))
	}
	for i := range s.whole.Nodes {
		if r := s.links.reads[s.whole.Nodes[i].GUID]; r != nil {
			said = append(said, s.whole.Nodes[i].Name+" is being read")
			if r.again {
				said[len(said)-1] += ", and will be again"
			}
		}
	}
	if w := s.links.Wake(); !w.IsZero() {
		said = append(said, fmt.Sprintf("wakes at %s", w.Sub(start)))
	}
	return strings.Join(said, "; ")
}

func (s *stage) name(g ib.GUID) string { return s.whole.Nodes[s.whole.Find(g)].Name }

func (s *stage) parse(t *testing.T, line string) Event {
	word, rest, _ := strings.Cut(line, " ")
	words := strings.Fields(rest)
	switch word {
	case "wait":
		s.now = s.now.Add(duration(t, rest))
		return Tick{}
	case "begun":
		return SweepBegan{s.now}
	case "untold":
		return SweepsUntold{}
	case "shown":
		return s.shown(t, words)
	case "trap": // NAME|lid=N [DURATION ago]
		e := Trap{At: s.now}
		if lid, is := strings.CutPrefix(words[0], "lid="); is {
			n, _ := strconv.Atoi(lid)
			e.LID = ib.LID(n)
		} else {
			e.LID = s.node(t, words[0]).LID()
		}
		if len(words) > 1 {
			e.At = s.now.Add(-duration(t, words[1]))
		}
		return e
	case "overheard", "told": // NAME
		return TrapLogged{s.node(t, words[0]).LID(), word == "told"}
	case "held":
		e := HeldBack{}
		for _, name := range words {
			e.Switches = append(e.Switches, s.node(t, name).GUID)
		}
		return e
	case "noticed":
		return Noticed{}
	case "said":
		return s.said(t, rest)
	case "ordered":
		return SweepOrdered{}
	case "looked":
		return Looked{Unfinished: rest == "unfinished"}
	}
	t.Fatalf("unknown event %q", line)
	return nil
}

// shown reads "[middle] [seen=DURATION-ago] [lacks=NAME/PORT,…] [NAME/PORT=RATE …]".
func (s *stage) shown(t *testing.T, words []string) Event {
	e := Shown{Fabric: s.whole.Clone(), Swept: true}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "nolids": // of hosts
			for i := range e.Fabric.Nodes {
				if n := &e.Fabric.Nodes[i]; n.Kind == topology.Adapter {
					n.Ports[1].LID = 0
				}
			}
		case "middle":
			e.Swept = false
		case "seen":
			e.Seen = s.now.Add(-duration(t, value))
		case "lacks":
			for _, spec := range strings.Split(value, ",") {
				if _, err := e.Fabric.Fail(spec); err != nil {
					t.Fatal(err)
				}
			}
		default:
			name, number, _ := strings.Cut(key, "/")
			p, _ := strconv.Atoi(number)
			e.Fabric.Nodes[s.whole.Find(s.node(t, name).GUID)].Ports[p].Rate = ib.ParseRate(value)
		}
	}
	return e
}

// portsRead reads "NAME [PORT=down|init|active|RATE …] [manager=NAME]; …". Other ports keep
// their actual state. A name with a question mark is a switch that could not be read.
func (s *stage) said(t *testing.T, rest string) Event {
	var e PortsRead
	for _, one := range strings.Split(rest, ";") {
		words := strings.Fields(one)
		name, unread := strings.CutSuffix(words[0], "?")
		n := s.node(t, name)
		a := Answer{Switch: n.GUID}
		if !unread {
			for _, p := range s.whole.Trunks(s.whole.Find(n.GUID)) {
				a.Ports = append(a.Ports, Port{Number: p, State: topology.Active, Rate: n.Ports[p].Rate})
			}
		}
		for _, w := range words[1:] {
			number, value, _ := strings.Cut(w, "=")
			if number == "manager" {
				ends := s.node(t, value).Ports
				a.Manager = max(ends[0].LID, ends[len(ends)-1].LID)
				continue
			}
			p := port(t, a.Ports, number)
			if state, known := map[string]topology.PortState{"down": topology.Down, "init": topology.Init, "active": topology.Active}[value]; known {
				p.State = state
			} else {
				p.Rate = ib.ParseRate(value)
			}
		}
		e.Answers = append(e.Answers, a)
	}
	return e
}

func port(t *testing.T, ports []Port, number string) *Port {
	for i := range ports {
		if fmt.Sprint(ports[i].Number) == number {
			return &ports[i]
		}
	}
	t.Fatalf("no port %s", number)
	return nil
}

func (s *stage) node(t *testing.T, name string) *topology.Node {
	for i := range s.whole.Nodes {
		if s.whole.Nodes[i].Name == name {
			return &s.whole.Nodes[i]
		}
	}
	t.Fatalf("no node %q", name)
	return nil
}

// say formats an action with the names of the fabric.
func (s *stage) say(a Action) string {
	switch a := a.(type) {
	case Believe:
		text := "believe the fabric as shown"
		if a.Fabric != s.links.Shown() {
			text = "believe"
			for _, c := range topology.Diff(s.links.Shown(), a.Fabric) {
				text += " " + c.Text + ","
			}
			text = strings.TrimSuffix(text, ",")
		}
		return fmt.Sprintf("%s, since %s", text, a.Seen.Sub(start))
	case Read:
		return fmt.Sprintf("read %s ports %d", s.name(a.Switch), a.Ports)
	}
	return a.String()
}

func duration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
