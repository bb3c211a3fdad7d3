package server

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
)

const document = "../../docs/api.md"

var update = flag.Bool("update", false, "write the answers into "+document)

var (
	example  = regexp.MustCompile("(?s)```console\n(\\$ curl [^\n]*)\n(.*?)```")
	argument = regexp.MustCompile(`'[^']*'|\S+`)
)

// TestDocument asks every example of the document and compares the answers.
func TestDocument(t *testing.T) {
	doc, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	got := example.ReplaceAllStringFunc(string(doc), func(block string) string {
		m := example.FindStringSubmatch(block)
		method, target, answer := answerCurl(t, m[1])
		path, _, _ := strings.Cut(target, "?")
		asked[method+" "+path] = true
		return "```console\n" + m[1] + "\n" + strings.TrimRight(answer, "\n") + "\n```"
	})
	if *update {
		if err := os.WriteFile(document, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(string(doc), got); diff != "" {
		t.Errorf("%s is not what the interface answers; rewrite it with -update (-document +answer):\n%s", document, diff)
	}
	for _, endpoint := range []string{"GET /readyz", "GET /v1/status", "GET /v1/topology", "GET /v1/plan", "GET /v1/plan/phases", "GET /v1/plan/phase",
		"GET /v1/plan/changes", "GET /v1/plan/servers/0x000000000000000d", "GET /v1/events", "GET /v1/epochs", "GET /v1/history", "GET /v1/jobs", "GET /v1/jobs/43",
		"GET /v1/jobs/43/phases", "POST /v1/jobs", "POST /v1/jobs/43/renew", "DELETE /v1/jobs/43", "POST /v1/reroute", "POST /v1/whatif", "POST /v1/rollback"} {
		if !asked[endpoint] {
			t.Errorf("%s has no example", endpoint)
		}
	}
}

// answerCurl answers a command line of curl, with jq at its end or without.
func answerCurl(t *testing.T, line string) (method, target, answer string) {
	t.Helper()
	line, pretty := strings.CutSuffix(line, " | jq .")
	method = "GET"
	var body, kind string
	args := argument.FindAllString(strings.TrimPrefix(line, "$ curl "), -1)
	for i := 0; i < len(args); i++ {
		switch arg := strings.Trim(args[i], "'"); arg {
		case "-s", "-sN", "-sf":
		case "--unix-socket":
			i++
		case "-X":
			i++
			method = args[i]
		case "--json":
			i++
			method, body, kind = "POST", strings.Trim(args[i], "'"), api.MediaJSON
		default:
			u, err := url.Parse(arg)
			if err != nil || u.Host != "forsd" {
				t.Fatalf("%s: what is %q?", line, arg)
			}
			target = u.RequestURI()
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.note(t, "Leaf007 port 31 – Spine010 port 8 went down")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // ends the event stream
		defer cancel()
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		Handler(s.Config, false).ServeHTTP(w, r)
		answer = w.Body.String()
	})
	if pretty {
		var out bytes.Buffer
		if err := json.Indent(&out, []byte(answer), "", "  "); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		answer = out.String()
	}
	return method, target, answer
}
