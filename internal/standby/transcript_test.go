package standby

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/forsd/forsd/testbed/transcripts"
)

// TestTranscripts replays the commands of every file in testdata: each is answered by
// the actions that follow, and the role. -rewrite rewrites the answers.
//
//	new [alone]                  a machine for the peer at "other", or for none
//	start
//	manager master|standby [missing=N]
//	wait DURATION
//	asked claim=N
//	answer [serial=N] [tag=T] [leads] [missing=N] [whole] [claim=N] [last=N] [passed=N] [epoch=N] [clock=MS] [own=LAST/EPOCH]
//	fail [serial=N]              the answer is the error in the lines below
//	adopted                      with the error in the lines below, if any
func TestTranscripts(t *testing.T) {
	transcripts.Run(t, func(*testing.T) transcripts.Block { return new(script).run })
}

// script is the machine of a transcript.
type script struct {
	m   *Machine
	now time.Time
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd == "new" {
		set := Settings{Peer: "other", TakeoverWait: time.Second, Salt: 1 << 31}
		if d.HasArg("alone") {
			set.Peer = ""
		}
		s.m, s.now = New(set), time.UnixMilli(1000)
		return s.state()
	}
	var out strings.Builder
	for _, a := range s.m.Step(s.now, s.event(t, d)) {
		fmt.Fprintln(&out, a)
	}
	return out.String() + s.state()
}

// event returns the event of a command.
func (s *script) event(t *testing.T, d *datadriven.TestData) Event {
	switch d.Cmd {
	case "start":
		return Start{}
	case "manager":
		e := Manager{Master: d.HasArg("master")}
		d.MaybeScanArgs(t, "missing", &e.Missing)
		return e
	case "wait":
		pause, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.now = s.now.Add(pause)
		return Tick{}
	case "asked":
		var e Asked
		d.ScanArgs(t, "claim", &e.Claim)
		return e
	case "adopted":
		return Adopted{Err: d.Input}
	case "answer", "fail":
		e := Answered{Serial: s.m.serial, Err: d.Input}
		e.Word.Leads, e.Word.Whole = d.HasArg("leads"), d.HasArg("whole")
		var own string
		for key, into := range map[string]any{"serial": &e.Serial, "tag": &e.Word.Tag, "missing": &e.Word.Missing, "claim": &e.Word.Claim, "last": &e.Word.Last, "passed": &e.Word.Passed, "epoch": &e.Word.Epoch, "clock": &e.Word.Clock, "own": &own} {
			d.MaybeScanArgs(t, key, into)
		}
		if own != "" {
			if _, err := fmt.Sscanf(own, "%d/%d", &e.Own.Last, &e.Own.Epoch); err != nil {
				d.Fatalf(t, "own=%s: %v", own, err)
			}
		}
		return e
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return nil
}

// state returns the last line of an answer.
func (s *script) state() string {
	line := "= " + s.m.Role().String()
	if c := s.m.Claim(); c != 0 {
		line += fmt.Sprintf(" with claim %d", c)
	}
	if w := s.m.Wake(); !w.IsZero() {
		line += fmt.Sprintf(", wakes in %v", w.Sub(s.now))
	}
	return line + "\n"
}
