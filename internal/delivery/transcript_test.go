package delivery

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/transcripts"
)

// TestTranscripts replays the files in testdata. Each line of "events" is one event. The
// output is the core's actions and a line with its state.
func TestTranscripts(t *testing.T) {
	transcripts.Run(t, func(*testing.T) transcripts.Block {
		s := &script{now: time.Unix(0, 0), named: map[string]*lft.Tables{}, names: map[*lft.Tables]string{}}
		s.c = New(s.tables("z"), func(a, b *lft.Tables) bool { return s.name(a)[0] != s.name(b)[0] })
		return transcripts.Events(func(t *testing.T, line string, out *strings.Builder) {
			s.t, s.out = t, out
			s.say(strings.Fields(line))
		})
	})
}

// script runs a transcript. The name of tables is a letter for their content, and an
// optional suffix: a and a2 have the same content.
type script struct {
	t     *testing.T
	c     *Core
	now   time.Time
	named map[string]*lft.Tables
	names map[*lft.Tables]string
	out   *strings.Builder
}

// tables returns the tables with the given name. "-" means nil.
func (s *script) tables(name string) *lft.Tables {
	if name == "-" {
		return nil
	}
	if s.named[name] == nil {
		s.named[name] = &lft.Tables{}
		s.names[s.named[name]] = name
	}
	return s.named[name]
}

func (s *script) name(t *lft.Tables) string {
	if t == nil {
		return "-"
	}
	return s.names[t]
}

// say handles one event and writes the actions and the state that follow.
func (s *script) say(words []string) {
	for _, a := range s.c.Step(s.now, s.event(words[0], words[1:])) {
		s.out.WriteString(a.String())
		switch a := a.(type) {
		case WriteFile:
			s.out.WriteString(" of " + s.name(a.Tables))
		case Answer:
			if a.Tables != nil {
				s.out.WriteString(" " + s.name(a.Tables))
			}
		}
		s.out.WriteString("\n")
	}
	var possible []string
	for _, t := range s.c.Possible() {
		possible = append(possible, s.name(t))
	}
	fmt.Fprintf(s.out, "= may hold %s", strings.Join(possible, " "))
	if s.c.Match() {
		s.out.WriteString(", as planned")
	}
	if w := s.c.Wake(); !w.IsZero() {
		fmt.Fprintf(s.out, ", wakes at %s", w.Sub(time.Unix(0, 0)))
	}
	s.out.WriteString("\n")
}

func (s *script) event(word string, args []string) Event {
	rest := strings.Join(args, " ")
	number := func() uint64 {
		n, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	span := func(text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			s.t.Fatal(err)
		}
		return d
	}
	switch word {
	case "wait":
		s.now = s.now.Add(span(args[0]))
		return Tick{}
	case "order": // FABRIC TABLES [rewrite]
		return Order{Fabric: args[0], Tables: s.tables(args[1]), Rewrite: len(args) > 2}
	case "decline": // FABRIC WHY
		return Decline{args[0], strings.Join(args[1:], " ")}
	case "file": // changed, same, or failed WHY
		if args[0] == "failed" {
			return FileWritten{Err: strings.Join(args[1:], " ")}
		}
		return FileWritten{Changed: args[0] == "changed"}
	case "read": // TABLES [match]
		return Read{Tables: s.tables(args[0]), Match: len(args) > 1}
	case "asked": // NUMBER FABRIC TIME
		return Asked{number(), args[1], s.now.Add(span(args[2]))}
	case "withdrawn":
		return Withdrawn{number()}
	}
	e, ok := map[string]Event{"load": Load{}, "settle": Settle{}, "reading": Reading{}, "changing": Changing{}, "forget": Forget{},
		"connected": Connected{}, "disconnected": Disconnected{}, "sweep": SweepStarted{}, "routed": Routed{}, "ended": SweepEnded{}, "missed": Missed{}}[word]
	if !ok {
		s.t.Fatalf("unknown command %q %s", word, rest)
	}
	return e
}
