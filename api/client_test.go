package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// TestClientOfAnother asks something that is not a forsd.
func TestClientOfAnother(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   string
	}{
		{500, "<html>", "500 Internal Server Error"},
		{200, "<html>", "read the answer of forsd"},
		{200, `{"epoch":"42"}`, "read the answer of forsd"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		client, err := Dial(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Status(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d %s: error %v, want one with %q", c.status, c.body, err, c.want)
		}
		if _, err := client.Table(t.Context()); err == nil {
			t.Errorf("%d %s: a table", c.status, c.body)
		}
		client.Close()
		server.Close()
	}
}

// TestClientOfEndless asks for answers that never end, and for some that promise to
// be longer than they may be.
func TestClientOfEndless(t *testing.T) {
	var promised int64 // −1 for an answer without an end
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"42"`)
		if promised >= 0 {
			w.Header().Set("Content-Length", strconv.FormatInt(promised, 10))
			w.WriteHeader(http.StatusOK)
			return
		}
		for spaces := bytes.Repeat([]byte{' '}, 1<<20); ; {
			if _, err := w.Write(spaces); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	c, err := Dial(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	for _, q := range []struct {
		what string
		most int64
		ask  func() error
	}{
		{"status", 64 << 20, func() error { _, err := c.Status(ctx); return err }},
		{"plan", 64 << 20, func() error { _, err := c.Plan(ctx); return err }},
		{"call", 1 << 30, func() error { return c.Call(ctx, http.MethodGet, "/v1/explain", nil, &struct{}{}) }},
		{"table", 1 << 30, func() error { _, err := c.Table(ctx); return err }},
		{"CSV", 1 << 30, func() error { _, _, err := c.PhasesCSV(ctx); return err }},
		{"a job's phases", 1 << 30, func() error { _, _, err := c.JobPhases(ctx, "7", false, false); return err }},
		{"what-if", 1 << 30, func() error { _, err := c.WhatIfTable(ctx, WhatIf{}, false); return err }},
	} {
		want := fmt.Sprintf(": it has more than %d bytes: is there a forsd at that address?", q.most)
		promised = q.most + 1
		if err := q.ask(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s, promised: %v, want an error with %q", q.what, err, want)
		}
		if promised = -1; q.most > 64<<20 {
			continue // a gigabyte is more than a test is worth
		}
		if err := q.ask(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s, endless: %v, want an error with %q", q.what, err, want)
		}
	}
	// One byte less is read, and found wanting.
	promised = 1 << 30
	if _, err := c.Table(ctx); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
}

func TestDial(t *testing.T) {
	for addr, base := range map[string]string{"/run/forsd/forsd.sock": "http://forsd", "./forsd.sock": "http://forsd", "unix:forsd.sock": "http://forsd",
		"http://node:7480": "http://node:7480", "http://node:7480/": "http://node:7480", "": "", "node": "", "unix:": ""} {
		c, err := Dial(addr)
		if (err == nil) != (base != "") || err == nil && c.base != base {
			t.Errorf("%q: %+v, error %v", addr, c, err)
		}
	}
}
