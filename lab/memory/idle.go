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
	"regexp"
	"slices"
	"sync/atomic"
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
	files         int       // of the page, and their bytes over the wire
	weight        int64
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
	if err := w.Flush(); err != nil {
		return err
	}
	last := all[len(all)-1]
	fmt.Printf("the page: %d files, %d bytes over the wire, loaded once\n", last.files, last.weight)
	return nil
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
		if x.files, x.weight, err = openPage(ctx, site); err != nil {
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

// runtimeOf is the run time of a process's threads.
func runtimeOf(pid int) (sum time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, path := range threads {
		var ns int64
		if text, err := os.ReadFile(path); err == nil {
			_, _ = fmt.Sscan(string(text), &ns) // a thread that has ended has none
		}
		sum += time.Duration(ns)
	}
	return sum
}

// refresh is how often an open page asks again if nothing happens.
const refresh = 15 * time.Second

// file finds the page's files in one another.
var file = regexp.MustCompile(`(?:/page/|"\./)([a-z]+\.[a-z]+)`)

// counted counts the bytes read from a connection.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

// openPage does the work of a browser with the view of the fabric until ctx ends: it loads the
// page's files, follows the events, and asks again from time to time. It returns the number of
// files, and their size in bytes over the wire.
func openPage(ctx context.Context, site *e2e.Site) (files int, weight int64, err error) {
	var read atomic.Int64
	socket := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", site.Socket())
		return counted{c, &read}, err
	}}}
	get := func(path string) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://forsd"+path, nil)
		if err != nil {
			return nil, err
		}
		answer, err := socket.Do(r)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", path, answer.Status)
		}
		return text, err
	}
	for paths := []string{"/"}; files < len(paths); files++ {
		text, err := get(paths[files])
		if err != nil {
			return 0, 0, err
		}
		for _, m := range file.FindAllSubmatch(text, -1) {
			if path := "/page/" + string(m[1]); !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	weight = read.Load()
	ask := func(paths ...string) (err error) {
		for _, path := range paths {
			_, again := get(path)
			err = errors.Join(err, again)
		}
		return err
	}
	if err := ask("/v1/whoami"); err != nil {
		return 0, 0, err
	}
	go func() { _ = ask("/v1/events") }() // until ctx ends
	go func() {
		for ctx.Err() == nil {
			_ = ask("/v1/status", "/v1/topology", "/v1/cables", "/v1/drains")
			select {
			case <-time.After(refresh):
			case <-ctx.Done():
			}
		}
	}()
	return files, weight, nil
}
