package page

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write files/advice.json anew")

// row is a line of the reference's tables of warnings.
var row = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| (?:info|degraded|critical) \\| [^|]+ \\| ([^|]+) \\|$")

// markup is what text has in the reference, and not on the page.
var markup = regexp.MustCompile("\\[([^]]*)\\]\\([^)]*\\)|[`*]")

// TestAdvice holds what the page says to do about each warning to what the reference says.
func TestAdvice(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	advice := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		advice[m[1]] = strings.TrimSpace(markup.ReplaceAllString(m[2], "$1"))
	}
	want, err := json.MarshalIndent(advice, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("files/advice.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if have := files["advice.json"].body; have != string(want) || len(advice) < 50 {
		t.Error("files/advice.json is not what docs/reference.md says: go test ./internal/page -update writes it")
	}
}

// TestFiles asks for each file, holds that they load each other and nothing else, that no
// script or style is within the HTML, and that all of it is small.
func TestFiles(t *testing.T) {
	h := Handler()
	all := 0
	outside := regexp.MustCompile(`https?://|//[a-z]+\.|@import|url\(`)
	imports := regexp.MustCompile(`(?:from |import )"\./([a-z]+\.js)"`)
	for name, f := range files {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page/"+name, nil))
		if w.Code != 200 || w.Body.String() != f.body || f.kind == "" || w.Header().Get("Content-Type") != f.kind {
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
		text := strings.ReplaceAll(f.body, "http://www.w3.org/2000/svg", "")
		if m := outside.FindString(text); m != "" && name != "advice.json" {
			t.Errorf("%s has %q: it is to load nothing from elsewhere", name, m)
		}
		if strings.Contains(f.body, "innerHTML") || strings.Contains(f.body, "eval(") || name == "index.html" && regexp.MustCompile(`style=|<style|<script>| on[a-z]+=`).MatchString(f.body) {
			t.Errorf("%s makes HTML or code of text", name)
		}
		for _, m := range imports.FindAllStringSubmatch(f.body, -1) {
			if _, there := files[m[1]]; !there {
				t.Errorf("%s imports %s", name, m[1])
			}
		}
	}
	if all > 300_000 {
		t.Errorf("the page has %d bytes", all)
	}
	t.Logf("%d files, %d bytes", len(files), all)
	for path, want := range map[string]int{"/": 200, "/page/../page.go": 404, "/page/": 404, "/page/no.js": 404} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		if h.ServeHTTP(w, r); w.Code != want || want == 200 && !bytes.Contains(w.Body.Bytes(), []byte("/page/app.js")) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
