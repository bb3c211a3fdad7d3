package exclusions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/transcripts"
)

// begin is the start time of transcripts.
var begin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func settings() DrainSettings { return DrainSettings{Grace: 10 * time.Second, Look: 2 * time.Second} }

// script is a machine with its clock.
type script struct {
	m   *Drains
	now time.Time
}

// TestTranscripts replays testdata. Times are relative to the beginning. An event is one of
//
//	order PART [at=D] [until=D] [because=WORD]     PART is cable:1/4, spine:3 or leaf:2
//	end PART
//	settled
//	looked [PART=USE[,USE]] ...                    parts that are not named have no uses
//	looked only PART[=USE] ...                     others were not looked at
//	tick D                                         later by D
//	restart                                        with the stored state
func TestTranscripts(t *testing.T) {
	here := time.Local
	time.Local = time.UTC // the texts use local time
	t.Cleanup(func() { time.Local = here })
	transcripts.Run(t, func(*testing.T) transcripts.Block {
		s := &script{NewDrains(settings()), begin}
		return transcripts.Events(func(t *testing.T, line string, out *strings.Builder) {
			for _, a := range s.m.Step(s.now, s.event(t, strings.Fields(line))) {
				fmt.Fprintln(out, a)
			}
			s.show(out)
		})
	})
}

func (s *script) show(out *strings.Builder) {
	for _, d := range s.m.List() {
		fmt.Fprintf(out, "= %s %s", d.Name, d.State)
		if !d.Clear.IsZero() {
			fmt.Fprintf(out, ", clear since %v", d.Clear.Sub(begin))
		}
		if d.Active() {
			fmt.Fprintf(out, ": %s", d.Text())
		}
		fmt.Fprintln(out)
	}
	if wake := s.m.Wake(); !wake.IsZero() {
		fmt.Fprintf(out, "= wakes at %v\n", wake.Sub(begin))
	}
}

func (s *script) event(t *testing.T, words []string) Event {
	switch words[0] {
	case "settled":
		return Settled{}
	case "restart":
		kept := s.m.List()
		s.m = NewDrains(settings())
		if len(words) > 1 { // the clock was set in the meantime
			s.now = s.now.Add(duration(t, words[1]))
		}
		return Load{Drains: kept}
	case "tick":
		s.now = s.now.Add(duration(t, words[1]))
		return Tick{}
	case "end":
		return End{part(t, words[1])}
	case "looked":
		return s.looked(t, words[1:])
	case "order":
		d := Drain{Part: part(t, words[1]), Name: words[1]}
		for _, w := range words[2:] {
			name, value, _ := strings.Cut(w, "=")
			switch name {
			case "at":
				d.At = begin.Add(duration(t, value))
			case "until":
				d.Until = begin.Add(duration(t, value))
			default:
				d.Reason = value
			}
		}
		return Order{d}
	}
	t.Fatalf("no event is called %v", words)
	return nil
}

func (s *script) looked(t *testing.T, words []string) Event {
	e := Looked{map[Part][]string{}}
	if only := len(words) > 0 && words[0] == "only"; !only {
		for _, d := range s.m.List() {
			e.Uses[d.Part] = nil
		}
	} else {
		words = words[1:]
	}
	for _, w := range words {
		name, uses, used := strings.Cut(w, "=")
		e.Uses[part(t, name)] = nil
		if used {
			e.Uses[part(t, name)] = strings.Split(uses, ",")
		}
	}
	return e
}

func part(t *testing.T, text string) Part {
	kind, at, _ := strings.Cut(text, ":")
	p := Part{Kind: Kind(kind)}
	if _, err := fmt.Sscanf(strings.Replace(at, "/", " ", 1)+" 0", "%d %d", &p.GUID, &p.Port); err != nil || !slices.Contains([]Kind{Cable, Spine, Leaf}, p.Kind) {
		t.Fatalf("%s is not a part: %v", text, err)
	}
	return p
}

func duration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
