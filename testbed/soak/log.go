package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// head returns the first line of a log: the settings that a repeated run needs, without events.
func (o *options) head() string {
	return fmt.Sprintf("# seed=%d events=%d mode=%s fabric=%s without=%s", o.Seed, o.Events, o.Mode, o.Fabric, o.Without)
}

// takeHead takes the settings from the log of the run to repeat, except for the
// disturbances to leave out.
func (o *options) takeHead() error {
	if o.Replay == "" {
		return nil
	}
	text, err := os.ReadFile(o.Replay)
	if err != nil {
		return err
	}
	head, _, _ := strings.Cut(string(text), "\n")
	if _, err := fmt.Sscanf(head, "# seed=%d events=%d mode=%s fabric=%s", &o.Seed, &o.Events, &o.Mode, &o.Fabric); err != nil {
		return fmt.Errorf("%s does not begin with the settings of a run: %w", o.Replay, err)
	}
	if filepath.Clean(o.Log) == filepath.Clean(o.Replay) {
		o.Log += ".again"
	}
	return nil
}

// source draws the events, or reads them.
func source(o options, w *world) (func() (event, bool), error) {
	without := strings.Split(o.Without, ",")
	if o.Replay == "" {
		rng, plan, n := rand.New(rand.NewPCG(o.Seed, 19)), w.clone(), 0
		return func() (event, bool) {
			if n++; n > o.Events {
				return event{}, false
			}
			return plan.draw(rng, without), true
		}, nil
	}
	file, err := os.Open(o.Replay)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []event
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		e, err := parseEvent(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Replay, err)
		}
		if slices.Contains(without, e.With) {
			e.With, e.After, e.By = "", 0, 0
		}
		all = append(all, e)
	}
	n := 0
	return func() (event, bool) {
		if n++; n > len(all) {
			return event{}, false
		}
		return all[n-1], true
	}, lines.Err()
}

// late is the delay of a plan after which the log also has the lines of the programs since
// the event.
const late = 200 * time.Millisecond

// programLogs are the logs of the programs that lead.
func (s *site) programLogs() []string {
	return []string{filepath.Join(s.Leader.Dir(), "forsd.log"), filepath.Join(s.Leader.ManagerDir(), "opensm.log")}
}

// tails records the lengths of the programs' logs.
func (s *site) tails() {
	s.tail = map[string]int64{}
	for _, path := range s.programLogs() {
		if info, err := os.Stat(path); err == nil {
			s.tail[path] = info.Size()
		}
	}
}

// since is the output of the programs in their logs since the event began.
func (s *site) since() (out []string) {
	for _, path := range s.programLogs() {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.NewSectionReader(f, s.tail[path], 1<<20))
		f.Close()
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		for i, line := range lines {
			if i < 60 {
				out = append(out, line[:min(len(line), 300)])
			}
		}
	}
	return out
}
