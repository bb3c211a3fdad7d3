package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/forsd/forsd/internal/health"
)

const secretPath, key = "/hooks/T0PSECRETPATH", "T0PSECRETKEY"

// service acts as a chat system.
type service struct {
	*httptest.Server
	mu     sync.Mutex // guards the fields below
	answer func(n int, w http.ResponseWriter, r *http.Request)
	got    []got
}

// got is a received request.
type got struct {
	header http.Header
	path   string
	body   []byte
}

// serve answers the nth request, from 0 on, with answer.
func serve(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *service {
	s := &service{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		n := len(s.got)
		s.got = append(s.got, got{r.Header, r.URL.Path, body})
		s.mu.Unlock()
		s.answer(n, w, r)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *service) requests() []got {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]got(nil), s.got...)
}

// bench is a running webhook with its log.
type bench struct {
	*Hook
	health *health.Tracker
	logs   *observer.ObservedLogs
}

// begin starts a webhook that sends to an address in a file.
func begin(t *testing.T, address string, change func(*Hook)) *bench {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	core, logs := observer.New(zapcore.DebugLevel)
	b := &bench{logs: logs}
	b.health = health.NewTracker(append(Kinds(), health.Warnable{Code: "cable-down", Severity: health.Degraded, Title: "Cables are down"}, health.Warnable{Code: "cable-new", Severity: health.Info}), func(w health.Warning, on bool) { b.Note(w, on) })
	b.Hook = New(Settings{URL: write("url", address+secretPath+"\n"), Secret: write("key", key+"\n"), Template: "json", Severity: health.Degraded, Version: "1", Fabric: "plane-3"}, zap.New(core), b.health)
	b.limits = limits{attempt: 300 * time.Millisecond, first: 5 * time.Millisecond, max: 20 * time.Millisecond, age: time.Minute}
	if change != nil {
		change(b.Hook)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = b.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return b
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 2000 {
		if holds() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("it did not come: %s", what)
}

// failing returns the text of the webhook's own warning, or "".
func (b *bench) failing() string {
	for _, w := range b.health.List(time.Now()) {
		if w.Code == Failing {
			return w.Text
		}
	}
	return ""
}

// keepsSecrets checks that neither the log nor a warning contains a secret.
func (b *bench) keepsSecrets(t *testing.T) {
	t.Helper()
	said := b.failing()
	for _, e := range b.logs.All() {
		said += fmt.Sprintln(e.Message, e.ContextMap())
	}
	if strings.Contains(said, "T0PSECRET") {
		t.Errorf("a secret is told: %s", said)
	}
}

// verify checks a signature as a receiver does.
func verify(t *testing.T, g got) {
	t.Helper()
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(mac, "%s.%s.%s", g.header.Get("Webhook-Id"), g.header.Get("Webhook-Timestamp"), g.body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); g.header.Get("Webhook-Signature") != want {
		t.Errorf("signature %q, want %q", g.header.Get("Webhook-Signature"), want)
	}
}

// TestSends begins and ends a warning, and another one that is not severe enough to send.
func TestSends(t *testing.T) {
	s := serve(t, func(int, http.ResponseWriter, *http.Request) {})
	b := begin(t, s.URL, nil)
	until(t, "the start", func() bool { return b.Sent() == 1 })
	now := time.Now()
	b.health.Raise("cable-new", "it is new", now)
	b.health.Raise("cable-down", "Leaf001 port 3", now)
	b.health.Raise("cable-down", "Leaf001 port 3", now) // no change
	b.health.Clear("cable-down")
	until(t, "three messages", func() bool { return b.Sent() == 3 })
	var states []string
	for _, g := range s.requests() {
		var m Message
		if err := json.Unmarshal(g.body, &m); err != nil || m.ID != g.header.Get("Webhook-Id") || m.Host == "" || m.Fabric != "plane-3" || !strings.HasPrefix(m.Line(), m.Host+" plane-3 ") || m.At.IsZero() {
			t.Errorf("%s: %v", g.body, err)
		}
		verify(t, g)
		states = append(states, m.State+" "+m.Code)
		if m.State == Raised && (m.Text != "Leaf001 port 3" || m.Severity != health.Degraded || m.Title != "Cables are down" || !m.Since.Equal(now)) {
			t.Errorf("%+v", m)
		}
	}
	if got := strings.Join(states, ", "); got != "started , raised cable-down, over cable-down" {
		t.Error(got)
	}
}

// TestFails makes the service fail, answer too late, drop the connection and ask for a delay,
// and then accept. It checks that the message arrives with its ID, and after the earlier
// messages.
func TestFails(t *testing.T) {
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 0:
			w.WriteHeader(http.StatusInternalServerError)
		case 1:
			<-r.Context().Done() // slow
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		case 4:
			w.Header().Set("Content-Length", "1000000")
			_, _ = w.Write([]byte("half")) // only the status matters
		}
	})
	b := begin(t, s.URL, nil)
	until(t, "a warning", func() bool { return b.failing() != "" })
	b.health.Raise("cable-down", "Leaf001 port 3", time.Now())
	until(t, "two messages", func() bool { return b.Sent() == 2 })
	got := s.requests()
	if len(got) != 6 {
		t.Fatalf("%d requests", len(got))
	}
	for _, g := range got[:5] {
		if g.header.Get("Webhook-Id") != got[0].header.Get("Webhook-Id") {
			t.Error("an attempt has another ID")
		}
	}
	if b.failing() != "" || b.Lost() != 0 {
		t.Errorf("%q, %d lost", b.failing(), b.Lost())
	}
	b.keepsSecrets(t)
}

// TestRefused makes the service redirect, and refuse permanently. It checks that neither is
// tried again, and that nothing is sent to the redirected address.
func TestRefused(t *testing.T) {
	other := serve(t, func(int, http.ResponseWriter, *http.Request) {})
	s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 0:
			w.Header().Set("Location", other.URL+"/stolen/T0PSECRETPATH")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case 1:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	b := begin(t, s.URL, nil)
	until(t, "a warning", func() bool { return strings.Contains(b.failing(), "redirects to "+other.URL) })
	b.keepsSecrets(t)
	b.health.Raise("cable-down", "1", time.Now())
	until(t, "another one", func() bool { return strings.Contains(b.failing(), "404") })
	b.keepsSecrets(t)
	b.health.Clear("cable-down")
	until(t, "the end of it", func() bool { return b.failing() == "" })
	if b.Lost() != 2 || b.Sent() != 1 || len(other.requests()) != 0 || len(s.requests()) != 3 {
		t.Errorf("%d lost, %d sent, %d requests, %d elsewhere", b.Lost(), b.Sent(), len(s.requests()), len(other.requests()))
	}
}

// TestQueueIsBounded has a service that does not answer, and more warnings than the queue
// holds. It checks that Note does not wait, and that the newest are kept.
func TestQueueIsBounded(t *testing.T) {
	open := make(chan struct{})
	s := serve(t, func(int, http.ResponseWriter, *http.Request) { <-open })
	b := begin(t, s.URL, func(h *Hook) { h.attempt = time.Minute })
	until(t, "the first", func() bool { return len(s.requests()) == 1 })
	const all = 100_000
	for n := range all {
		b.Note(health.Warning{Code: "cable-down", Severity: health.Degraded, Text: fmt.Sprint(n)}, true)
	}
	if len(b.queue) != queueLength || b.Lost() != all-queueLength {
		t.Errorf("%d wait, %d are lost", len(b.queue), b.Lost())
	}
	close(open)
	until(t, "all that waited", func() bool { return b.Sent() == queueLength+1 })
	got := s.requests()
	var last Message
	if err := json.Unmarshal(got[len(got)-1].body, &last); err != nil || last.Text != fmt.Sprint(all-1) {
		t.Errorf("the last is %+v: %v", last, err)
	}
}

// TestTooOld checks that an undelivered message is dropped, and that a missing service is
// reported.
func TestTooOld(t *testing.T) {
	s := serve(t, func(int, http.ResponseWriter, *http.Request) {})
	s.Close()
	b := begin(t, s.URL, func(h *Hook) { h.age = 50 * time.Millisecond })
	until(t, "the loss", func() bool { return b.Lost() == 1 })
	until(t, "its text", func() bool {
		return strings.Contains(b.failing(), "cannot be asked") && strings.Contains(b.failing(), "1 messages were lost")
	})
	b.keepsSecrets(t)
}

// TestFilesLack removes or damages each of the files, and repairs it while forsd runs.
func TestFilesLack(t *testing.T) {
	s := serve(t, func(int, http.ResponseWriter, *http.Request) {})
	for what, c := range map[string]struct {
		spoil func(*Hook) string // returns the path of the file
		good  string
		says  string
	}{
		"no address":  {func(h *Hook) string { _ = os.Remove(h.URL); return h.URL }, s.URL + secretPath, "webhook.url"},
		"no URL":      {func(h *Hook) string { _ = os.WriteFile(h.URL, []byte("T0PSECRET"), 0o600); return h.URL }, s.URL + secretPath, "not an address"},
		"empty key":   {func(h *Hook) string { _ = os.WriteFile(h.Secret, []byte("\n"), 0o600); return h.Secret }, key, "is empty"},
		"broken key":  {func(h *Hook) string { _ = os.WriteFile(h.Secret, []byte("whsec_T0PSECRET!"), 0o600); return h.Secret }, key, "no base64"},
		"no template": {func(h *Hook) string { h.Template = h.URL + ".t"; return h.Template }, `{"mine": {{json .Title}}}`, "webhook.template"},
		"bad template": {func(h *Hook) string {
			h.Template = h.URL + ".t"
			_ = os.WriteFile(h.Template, []byte("{{.Nothing}}"), 0o600)
			return h.Template
		}, `{}`, "Nothing"},
		"no JSON": {func(h *Hook) string {
			h.Template = h.URL + ".t"
			_ = os.WriteFile(h.Template, []byte(`{"text": "{{.Text}}`), 0o600)
			return h.Template
		}, `{}`, "does not make JSON"},
	} {
		var path string
		b := begin(t, s.URL, func(h *Hook) { path = c.spoil(h) })
		until(t, what, func() bool { return strings.Contains(b.failing(), c.says) })
		b.keepsSecrets(t)
		if err := os.WriteFile(path, []byte(c.good), 0o600); err != nil {
			t.Fatal(err)
		}
		until(t, what+" is over", func() bool { return b.Sent() == 1 && b.failing() == "" })
	}
}

// TestTemplates compares each format with the input of its chat system, with names in it that
// would mention users.
func TestTemplates(t *testing.T) {
	m := Message{ID: "x", Host: "node", State: Raised, Code: "cable-down", Severity: health.Critical, Title: "Cables are down", Text: `<!channel> @all "Leaf" & [x](http://evil)` + "\n" + strings.Repeat("ü", 5000)}
	for name, path := range map[string][]any{"slack": {"text"}, "discord": {"content"}, "teams": {"attachments", 0, "content", "body", 0, "text"}, "json": {"text"}} {
		body, err := m.render(name)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		for _, step := range path {
			switch step := step.(type) {
			case string:
				v = v.(map[string]any)[step]
			case int:
				v = v.([]any)[step]
			}
		}
		text := v.(string)
		if name == "json" {
			if text != m.Text {
				t.Errorf("json: %q", text)
			}
			continue
		}
		if !strings.HasPrefix(text, "node [CRITICAL] Cables are down: ") || strings.Contains(text, "<!") || strings.Contains(text, "@all") || strings.Contains(text, "](") || len([]rune(text)) > 1600 {
			t.Errorf("%s: %.200q", name, text)
		}
	}
	m.Text, m.Advice = "Leaf001 port 3", "Replace it.\nsudo forsctl cables SWITCH/PORT"
	for state, want := range map[string]string{Raised: "node [CRITICAL] Cables are down: Leaf001 port 3 (cable-down) What to do: Replace it.", Over: "node [OVER] Cables are down (cable-down)", Started: "node Cables are down"} {
		m.State = state
		if got := m.Line(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
