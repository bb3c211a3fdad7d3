package cablehealth

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/transcripts"
)

// TestTranscripts replays the commands of every file in testdata, and compares the actions
// after each command. -rewrite rewrites the actions. A cable is LEAF/PORT, and leads to
// spine 100.
//
//	new [mode=M] [per-leaf=N] [slow]  a monitor; with slow it isolates slow cables
//	restart [mode=M]              one that begins with the records of the last
//	round [after=D] [times=N]     readings, a line each: CABLE [COUNTER=leaf,spine ...], added
//	                              to the earlier counts; "reset CABLE", "unread CABLE",
//	                              "slow CABLE" or "aside CABLE". The last round of several
//	                              has the actions.
//	measured                      lines CABLE SLOWDOWN [slow]: transfers were timed
//	weighed CABLE [refuse|needed] the answer to weigh; the reason is in the line below
//	short                         a plan leaves out servers, or is missing
//	down|up|release CABLE         down first: it was never seen up
//	show                          every cable in its published form
func TestTranscripts(t *testing.T) {
	transcripts.Run(t, func(*testing.T) transcripts.Block {
		return (&script{counted: map[Cable]*[2]ib.Counters{}, now: time.Unix(0, 0)}).run
	})
}

type script struct {
	m       *Monitor
	now     time.Time
	counted map[Cable]*[2]ib.Counters
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "new", "restart":
		set, records := Defaults(), map[Cable]Record(nil)
		set.Mode = Isolate
		if d.HasArg("mode") {
			var mode string
			d.ScanArgs(t, "mode", &mode)
			set.Mode = Mode(mode)
		}
		if d.HasArg("per-leaf") {
			d.ScanArgs(t, "per-leaf", &set.PerLeaf)
		}
		set.IsolateSlow = d.HasArg("slow")
		if d.Cmd == "restart" {
			records = s.m.Records()
		}
		s.m = New(set, records)
		return fmt.Sprintf("%d isolated\n", len(s.m.Isolated()))
	case "round":
		return s.rounds(t, d)
	case "measured":
		var e Measured
		for line := range strings.Lines(d.Input) {
			words := strings.Fields(line)
			x := Measurement{Cable: cable(t, words[0]), Error: .01, Slow: len(words) > 2}
			if _, err := fmt.Sscan(words[1], &x.Slowdown); err != nil {
				t.Fatal(err)
			}
			e = append(e, x)
		}
		return said(s.m.Step(s.now, e))
	case "short":
		return said(s.m.Step(s.now, Short{}))
	case "show":
		var out strings.Builder
		s.m.Cables(func(c Cable, v View) {
			fmt.Fprintf(&out, "%v: %v, %v; %d and %d symbol errors within %v\n", c, v.State, v.Verdict, v.Rates[0].Symbols, v.Rates[1].Symbols, v.Rates[0].Over)
		})
		return out.String()
	}
	c := cable(t, d.CmdArgs[0].Key)
	e := map[string]Event{"weighed": Weighed{Cable: c}, "down": LinkDown{Cable: c, First: d.HasArg("first")}, "up": LinkUp{c}, "release": Release{c}}[d.Cmd]
	if w, is := e.(Weighed); is && (d.HasArg("refuse") || d.HasArg("needed")) {
		w.Refuse, w.Needed = d.Input, d.HasArg("needed")
		e = w
	}
	return said(s.m.Step(s.now, e))
}

func (s *script) rounds(t *testing.T, d *datadriven.TestData) string {
	after, times := time.Minute, 1
	if d.HasArg("after") {
		var text string
		d.ScanArgs(t, "after", &text)
		var err error
		if after, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if d.HasArg("times") {
		d.ScanArgs(t, "times", &times)
	}
	out := ""
	for range times {
		s.now = s.now.Add(after)
		round := Round{}
		for line := range strings.Lines(d.Input) {
			round.Readings = append(round.Readings, s.reading(t, strings.Fields(line)))
		}
		out = said(s.m.Step(s.now, round))
	}
	return out
}

func (s *script) reading(t *testing.T, words []string) Reading {
	verb := ""
	if slices.Contains([]string{"reset", "unread", "slow", "aside"}, words[0]) {
		verb, words = words[0], words[1:]
	}
	c := cable(t, words[0])
	if s.counted[c] == nil || verb == "reset" {
		s.counted[c] = &[2]ib.Counters{}
	}
	all := s.counted[c]
	for _, word := range words[1:] {
		var leaf, spine uint64
		name, counts, _ := strings.Cut(word, "=")
		if _, err := fmt.Sscanf(counts, "%d,%d", &leaf, &spine); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		for i, n := range []uint64{leaf, spine} {
			field := map[string]*uint64{"symbols": &all[i].Symbols, "recoveries": &all[i].Recoveries, "downed": &all[i].Downed, "received": &all[i].Received,
				"discards": &all[i].Discards, "integrity": &all[i].Integrity, "overruns": &all[i].Overruns, "sent": &all[i].Sent, "wait": &all[i].Wait}[name]
			if field == nil {
				t.Fatalf("no counter is called %s", name)
			}
			*field += n
		}
	}
	r := Reading{Cable: c, Gbps: 200, Aside: verb == "aside"}
	if verb == "slow" {
		r.Slow = "it runs at 1xEDR instead of 4xEDR"
	}
	if verb != "unread" {
		ends := *all
		r.Ends = [2]*ib.Counters{&ends[0], &ends[1]}
	}
	return r
}

func cable(t *testing.T, word string) Cable {
	var leaf, port int
	if _, err := fmt.Sscanf(word, "%d/%d", &leaf, &port); err != nil {
		t.Fatalf("%s: %v", word, err)
	}
	return Cable{ib.End{GUID: ib.GUID(leaf), Port: uint8(port)}, ib.End{GUID: 100, Port: uint8(port)}}
}

func said(actions []Action) string {
	var out strings.Builder
	for _, a := range actions {
		fmt.Fprintln(&out, a)
	}
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}
