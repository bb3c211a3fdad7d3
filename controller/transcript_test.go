package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/transcripts"
)

var testSettings = Settings{
	SweepTimeout: 10 * time.Second, RetryFirst: time.Second, RetryMax: time.Minute,
	HoldDown: 10 * time.Second, HoldDownMax: 10 * time.Minute, Flaps: 3, FlapWindow: 2 * time.Minute,
	MaxLoss: 0.5, Confirm: 30 * time.Second, Audit: time.Minute,
}

// TestTranscripts replays the files of testdata. Each line of "events" is one event. The
// controller's response ends with a line for its state.
func TestTranscripts(t *testing.T) {
	transcripts.Run(t, func(*testing.T) transcripts.Block {
		s := &script{Controller: New(testSettings), now: time.Unix(0, 0).UTC()}
		return transcripts.Events(s.say)
	})
}

// script drives a controller.
type script struct {
	*Controller
	now      time.Time
	withheld []Lane // in every snapshot
}

// snapshot returns the snapshot that a command describes.
func (c *script) snapshot(t *testing.T, text string) Snapshot {
	s := parseSnapshot(t, text)
	s.Withheld = c.withheld
	return s
}

// say runs one command and writes the resulting actions and state.
func (c *script) say(t *testing.T, cmd string, out *strings.Builder) {
	word, rest, _ := strings.Cut(cmd, " ")
	var e Event
	switch word {
	case "ground":
		name := ""
		fabric, avoid := c.Ground()
		if fabric != nil {
			name = fabric.ID
		}
		fmt.Fprintf(out, "ground %s avoiding %v\n", name, avoid)
		return
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			t.Fatal(err)
		}
		c.now = c.now.Add(d)
		e = Tick{}
	case "seen":
		e = Seen{c.snapshot(t, rest)}
	case "found":
		e = Found{c.snapshot(t, rest)}
	case "mastership":
		e = Mastership{Master: rest == "gained"}
	case "refused":
		e = Refused{rest}
	case "reroute":
		e = Reroute{}
	case "configured":
		set := testSettings
		if _, err := fmt.Sscanf(rest, "flaps=%d confirm=%d loss=%g", &set.Flaps, &set.Confirm, &set.MaxLoss); err != nil {
			t.Fatal(err)
		}
		set.Confirm *= time.Second
		e = Configured{set}
	case "restarted":
		e = TablesDoubted{}
	case "withhold":
		if c.withheld = nil; rest != "" {
			c.withheld = parseSnapshot(t, "- down="+rest).Down
		}
		again := *c.latest
		again.Withheld = c.withheld
		e = Found{again}
	case "planned":
		e = Planned{Same: rest == "same", Err: errorOf(rest), GivenUp: rest == "error given up"}
		if why, refused := strings.CutPrefix(rest, "refused "); refused {
			e = Planned{Err: why, Refused: true}
		}
	case "published":
		e = Published{Err: errorOf(rest)}
	case "written":
		e = Written{Changed: rest == "changed", Err: errorOf(rest)}
	case "signalled":
		e = Signalled{Err: errorOf(rest)}
	case "read":
		diff, _ := strings.CutPrefix(rest, "difference ")
		e = ReadBackDone{Match: rest == "match", Err: errorOf(rest)}
		if diff != rest {
			e = ReadBackDone{Difference: diff}
		}
		if why, unwritten := strings.CutPrefix(rest, "unwritten "); unwritten {
			e = ReadBackDone{Match: true, Unwritten: why}
		}
	default:
		t.Fatalf("unknown command %q", cmd)
	}
	for _, a := range c.Step(c.now, e) {
		fmt.Fprintf(out, "%s\n", a)
	}
	wake := ""
	if w := c.Wake(); !w.IsZero() {
		wake = fmt.Sprintf(", wakes at %s", w.Sub(time.Unix(0, 0)))
	}
	fmt.Fprintf(out, "= %s%s%s\n", c.State(), wake, mind(c.Controller))
}

// mind returns the other parts of the controller's state, if they are unusual.
func mind(c *Controller) (text string) {
	if held := c.Held(); len(held) > 0 {
		text += fmt.Sprintf(", holds %v", held)
	}
	for what, is := range []bool{c.Standby(), c.LossUnconfirmed(), c.Superseded()} {
		if is {
			text += ", " + []string{"stands by", "doubts", "is overtaken"}[what]
		}
	}
	return text
}

func errorOf(rest string) string {
	e, found := strings.CutPrefix(rest, "error ")
	if !found {
		return ""
	}
	return e
}

// parseSnapshot parses "ID [kind=name] [down=leaf/lane,…] [lost=share]".
func parseSnapshot(t *testing.T, s string) Snapshot {
	fields := strings.Fields(s)
	snap := Snapshot{ID: fields[0]}
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "kind":
			k := slices.Index(kindNames[:], value)
			if k < 0 {
				t.Fatalf("unknown kind %q", value)
			}
			if snap.Kind = Kind(k); snap.Kind == OwnRoutes {
				snap.Why = "it is a ring"
			}
		case "down":
			for _, l := range strings.Split(value, ",") {
				var lane Lane
				if _, err := fmt.Sscanf(l, "%d/%d", &lane.Leaf, &lane.Lane); err != nil {
					t.Fatal(err)
				}
				snap.Down = append(snap.Down, lane)
			}
		case "lost":
			lost, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			snap.Lost = lost
		default:
			t.Fatalf("unknown field %q", f)
		}
	}
	return snap
}
