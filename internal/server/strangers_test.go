package server

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
)

// TestStrangers refuses what a browser may have been tricked into, and nothing
// that programs and operators send.
func TestStrangers(t *testing.T) {
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Backend: &fake{ready: true}, Plans: &published.Plans{}, Events: published.NewEvents(1, started), ReadOverTCP: true, Names: []string{"Fabric.example.org"}}
	type header map[string]string
	for _, c := range []struct {
		method, host string
		header       header
		want         int
	}{
		{"GET", "10.0.0.7:7480", nil, 200},
		{"GET", "[fe80::1%eth0]:7480", nil, 200},
		{"GET", "::1", nil, 200},
		{"GET", "localhost:7480", nil, 200},
		{"GET", "", nil, 200},
		{"GET", strings.ToUpper(machine) + ":7480", nil, 200},
		{"GET", machine + ".cluster.example.", nil, 403}, // not its full name
		{"POST", machine + ".evil.example", header{"Origin": "http://" + machine + ".evil.example"}, 403},
		{"GET", "fabric.example.org", nil, 200},
		{"GET", "evil.example:7480", nil, 403},
		{"GET", "localhost.evil.example", nil, 403},
		{"GET", "10.0.0.7.evil.example", nil, 403},
		{"GET", "x" + machine, nil, 403},
		{"GET", "10.0.0.7:7480", header{"Origin": "http://10.0.0.7:7480"}, 200}, // forsd's own page
		{"GET", "10.0.0.7:7480", header{"Origin": "http://evil.example"}, 403},
		{"GET", "10.0.0.7:7480", header{"Origin": "http://10.0.0.7:80"}, 403},
		{"GET", "10.0.0.7:7480", header{"Origin": "null"}, 403},
		{"GET", "10.0.0.7:7480", header{"Sec-Fetch-Site": "same-origin"}, 200},
		{"GET", "10.0.0.7:7480", header{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200},
		{"GET", "10.0.0.7:7480", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200},
		{"GET", "10.0.0.7:7480", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403},
		{"GET", "10.0.0.7:7480", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403},
		{"GET", "10.0.0.7:7480", header{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403},
		{"POST", "evil.example", nil, 403},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/v1/status", nil)
		r.Host = c.host
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		Handler(config, true).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s at %q with %v over TCP: %d %s, want %d", c.method, c.host, c.header, w.Code, w.Body, c.want)
		}
		w = httptest.NewRecorder()
		// A port may be forwarded to the socket, for a browser.
		if Handler(config, false).ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s at %q with %v on the Unix socket: %d %s, want %d", c.method, c.host, c.header, w.Code, w.Body, c.want)
		}
	}
	for host, want := range map[string]int{"forsd": 200, "forsd.": 200, "forsd:80": 200, "d": 403, "forsd.evil.example": 403} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/status", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if Handler(config, false).ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q on the Unix socket: %d %s, want %d", host, w.Code, w.Body, want)
		}
	}
}

// TestSimplePosts refuses what a page can post across origins without being asked
// (https://fetch.spec.whatwg.org/#cors-safelisted-request-header), on every endpoint that
// takes more than reading. JSON in any spelling is taken.
func TestSimplePosts(t *testing.T) {
	s := newSite(t)
	posts := 0
	for pattern, role := range Endpoints(s.Config) {
		path, is := strings.CutPrefix(pattern, "POST ")
		if !is || role < api.Viewer {
			continue
		}
		posts++
		path = strings.ReplaceAll(path, "{job}", "43")
		for kind, refused := range map[string]bool{"": true, "text/plain": true, "application/x-www-form-urlencoded": true, "multipart/form-data; boundary=x": true,
			"text/plain; application/json": true, "application/json": false, "Application/JSON; charset=utf-8": false} {
			r := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader("{}"))
			r.Header.Set("Content-Type", kind)
			w := httptest.NewRecorder()
			if Handler(s.Config, false).ServeHTTP(w, r); (w.Code == 415) != refused {
				t.Errorf("POST %s as %q: %d %s", path, kind, w.Code, w.Body)
			}
			if refused && len(s.calls) > 0 {
				t.Fatalf("POST %s as %q did %q", path, kind, s.calls)
			}
			s.calls = nil
		}
	}
	if posts < 5 {
		t.Errorf("only %d endpoints were asked", posts)
	}
}
