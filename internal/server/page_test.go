package server

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestPageFiles requests each file, and checks that the files load each other and nothing else,
// that the HTML contains no script or style, and that all of it is small.
func TestPageFiles(t *testing.T) {
	h := http.HandlerFunc(page)
	all := 0
	outside := regexp.MustCompile(`https?://|//[a-z]+\.|@import|url\(`)
	imports := regexp.MustCompile(`(?:from |import )"\./([a-z]+\.js)"`)
	for name, f := range pageFiles {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page/"+name, nil))
		if w.Code != 200 || w.Body.String() != string(f.body) || f.kind == "" || w.Header().Get("Content-Type") != f.kind {
			t.Errorf("%s: %d, %s", name, w.Code, w.Header())
		}
		again := httptest.NewRequest(http.MethodGet, "/page/"+name, nil)
		again.Header.Set("If-None-Match", w.Header().Get("ETag"))
		if w = httptest.NewRecorder(); true {
			if h.ServeHTTP(w, again); w.Code != http.StatusNotModified {
				t.Errorf("%s again: %d", name, w.Code)
			}
		}
		all += len(f.body)
		body := string(f.body)
		text := strings.ReplaceAll(body, "http://www.w3.org/2000/svg", "")
		if m := outside.FindString(text); m != "" {
			t.Errorf("%s has %q: it is to load nothing from elsewhere", name, m)
		}
		if strings.Contains(body, "innerHTML") || strings.Contains(body, "eval(") || name == "index.html" && regexp.MustCompile(`style=|<style|<script>| on[a-z]+=`).MatchString(body) {
			t.Errorf("%s makes HTML or code of text", name)
		}
		for _, m := range imports.FindAllStringSubmatch(body, -1) {
			if _, there := pageFiles[m[1]]; !there {
				t.Errorf("%s imports %s", name, m[1])
			}
		}
	}
	if all > 300_000 {
		t.Errorf("the page has %d bytes", all)
	}
	t.Logf("%d files, %d bytes", len(pageFiles), all)
	for path, want := range map[string]int{"/": 200, "/page/../page.go": 404, "/page/": 404, "/page/no.js": 404} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		if h.ServeHTTP(w, r); w.Code != want || want == 200 && !bytes.Contains(w.Body.Bytes(), []byte("/page/app.js")) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
