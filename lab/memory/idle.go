package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/forsd/forsd/testbed/e2e"
)

// warm is how long forsd has been at rest before it is looked at.
const warm = 15 * time.Second

// idler is a forsd at rest, with more or less to do.
type idler struct {
	name          string
	history, page bool
	mb, cpu       []float64 // by start: resident memory, and the share of a core in percent
}

// measureIdle measures a program at rest for a time: without history, with it, and with a
// page open. They take turns.
func measureIdle(ctx context.Context, program string, starts int, rest time.Duration) error {
	all := []*idler{{name: "no history"}, {name: "history", history: true}, {name: "history, page open", history: true, page: true}}
	for range starts {
		for _, x := range all {
			if err := x.measure(ctx, program, rest); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "at rest for %v, medians of %d\tresident MB\t%% of a core\t\n", rest, starts)
	for _, x := range all {
		slices.Sort(x.mb)
		slices.Sort(x.cpu)
		fmt.Fprintf(w, "%s\t%.1f\t%.3f\t\n", x.name, x.mb[starts/2], x.cpu[starts/2])
	}
	return w.Flush()
}

func (x *idler) measure(ctx context.Context, program string, rest time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	site, err := e2e.New(ctx, options(program))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	if !x.history {
		if err := site.WithoutHistory(); err != nil {
			return err
		}
	}
	if err := site.Up(ctx); err != nil {
		return err
	}
	if x.page {
		if err := openPage(ctx, site); err != nil {
			return err
		}
	}
	time.Sleep(warm)
	before, began := runtimeOf(site.Forsd.PID()), time.Now()
	time.Sleep(rest)
	used, over := runtimeOf(site.Forsd.PID())-before, time.Since(began)
	kb, err := resident(site.Forsd.PID(), "VmRSS:")
	x.mb, x.cpu = append(x.mb, float64(kb)/1024), append(x.cpu, 100*used.Seconds()/over.Seconds())
	return err
}

// runtimeOf is what a process's threads have run for.
func runtimeOf(pid int) (sum time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, path := range threads {
		var ns int64
		if text, err := os.ReadFile(path); err == nil {
			_, _ = fmt.Sscan(string(text), &ns) // a thread that ends meanwhile has none
		}
		sum += time.Duration(ns)
	}
	return sum
}

// openPage asks for what the page asks for when it is opened, and keeps its stream of events
// open until ctx ends. At rest the page asks for nothing else.
func openPage(ctx context.Context, site *e2e.Site) error {
	socket := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", site.Socket())
	}}}
	read := func(path string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://forsd"+path, nil)
		if err != nil {
			return err
		}
		answer, err := socket.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if _, err = io.Copy(io.Discard, answer.Body); err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", path, answer.Status)
		}
		return err
	}
	for _, path := range []string{"/", "/v1/whoami", "/v1/status", "/v1/topology", "/v1/cables", "/v1/drains"} {
		if err := read(path); err != nil {
			return err
		}
	}
	go func() { _ = read("/v1/events") }() // until ctx ends
	return nil
}
