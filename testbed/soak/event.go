package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// event is a change of the fabric, and a disturbance of the programs that must respond to it.
// Each may be missing. The text of an event is enough to repeat it.
type event struct {
	Change string   // pull, plug, spine-off …; "" leaves the fabric as it is
	Where  []string // cables and host ports as NODE/PORT, switches by name; a job and its lease

	With  string        // kill-forsd, kill-opensm …; "" disturbs nothing
	After time.Duration // from the change to the disturbance; below 0 the disturbance comes first
	By    int           // clock: how many seconds it steps; 0 stops it for a while
}

// orders reports whether an operator asks forsd for something.
func (e event) orders() bool {
	return slices.Contains([]string{"drain", "drain-for", "undrain", "release", "lease"}, e.Change)
}

// moves reports whether cables are pulled or plugged in.
func (e event) moves() bool { return e.Change != "" && e.Change != "errors" && !e.orders() }

// String is such as "pull Leaf003/25 with kill-forsd 37ms".
func (e event) String() string {
	words := append([]string{e.Change}, e.Where...)
	if e.Change == "" {
		words[0] = "nothing"
	}
	if e.With != "" {
		words = append(words, "with", e.With, e.After.String())
		if e.With == "clock" {
			words = append(words, strconv.Itoa(e.By)+"s")
		}
	}
	return strings.Join(words, " ")
}

// parseEvent reads the output of String.
func parseEvent(text string) (e event, err error) {
	change, with, disturbed := strings.Cut(text, " with ")
	words := strings.Fields(change)
	if len(words) == 0 {
		return e, fmt.Errorf("event %q: want a change", text)
	}
	if e.Change, e.Where = words[0], words[1:]; e.Change == "nothing" {
		e.Change = ""
	}
	if !disturbed {
		return e, nil
	}
	words = strings.Fields(with)
	if len(words) < 2 || len(words) > 3 {
		return e, fmt.Errorf("event %q: want a disturbance and its time, such as kill-forsd 37ms", text)
	}
	e.With = words[0]
	if e.After, err = time.ParseDuration(words[1]); err != nil {
		return e, fmt.Errorf("event %q: %w", text, err)
	}
	if len(words) == 3 {
		if e.By, err = strconv.Atoi(strings.TrimSuffix(words[2], "s")); err != nil {
			return e, fmt.Errorf("event %q: %w", text, err)
		}
	}
	return e, nil
}

// place is a port of a switch, by name.
type place struct {
	Node string
	Port int
}

func (p place) String() string { return p.Node + "/" + strconv.Itoa(p.Port) }

func parsePlace(text string) (place, error) {
	node, port, ok := strings.Cut(text, "/")
	n, err := strconv.Atoi(port)
	if !ok || err != nil {
		return place{}, fmt.Errorf("%q: want NODE/PORT", text)
	}
	return place{node, n}, nil
}
