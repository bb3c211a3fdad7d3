package access

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/sealed"
)

func TestLists(t *testing.T) {
	l, unknown := Compile(Rules{Administrators: []string{"anna", "cn:root", "@4000"}, Operators: []string{"@4001", "ou:ops", "anna"}, Viewers: []string{"4711", "ou:hosts", "@no-such-group"}})
	if len(unknown) != 1 || unknown[0] != "@no-such-group" {
		t.Errorf("unknown: %v", unknown)
	}
	for name, c := range map[string]struct{ have, want api.Role }{
		"root":             {l.OfUser(0, "root", nil), api.Administrator},
		"forsd's own":      {l.OfUser(uint32(os.Geteuid()), "", nil), api.Administrator},
		"by name":          {l.OfUser(61000, "anna", nil), api.Administrator},
		"by group":         {l.OfUser(61000, "otto", []uint32{1, 4001}), api.Operator},
		"the higher one":   {l.OfUser(61000, "otto", []uint32{4001, 4000}), api.Administrator},
		"by number":        {l.OfUser(4711, "", nil), api.Viewer},
		"in none":          {l.OfUser(61000, "eve", []uint32{7}), api.Nobody},
		"unknown group":    {l.OfUser(61000, "@no-such-group", nil), api.Nobody},
		"a user called so": {l.OfUser(61000, "cn:root", nil), api.Nobody},
		"common name":      {l.OfCertificate(&x509.Certificate{Subject: pkix.Name{CommonName: "root"}}), api.Administrator},
		"no common name":   {l.OfCertificate(&x509.Certificate{Subject: pkix.Name{CommonName: "anna"}}), api.Nobody},
		"units":            {l.OfCertificate(&x509.Certificate{Subject: pkix.Name{CommonName: "x", OrganizationalUnit: []string{"hosts", "ops"}}}), api.Operator},
	} {
		if c.have != c.want {
			t.Errorf("%s: %s, want %s", name, c.have, c.want)
		}
	}
	// Without rules for users and groups, the socket is unrestricted; a group restricts it even
	// if it does not exist.
	for _, c := range []struct {
		rules Rules
		want  api.Role
	}{{Rules{}, api.Administrator}, {Rules{Administrators: []string{"cn:root"}}, api.Administrator}, {Rules{Viewers: []string{"@no-such-group"}}, api.Nobody}, {Rules{Viewers: []string{"otto"}}, api.Nobody}} {
		l, _ := Compile(c.rules)
		if have := l.OfUser(61000, "eve", nil); have != c.want {
			t.Errorf("%v: %s, want %s", c.rules, have, c.want)
		}
	}
	for _, entry := range []string{"", "@", "cn:", "ou:", " anna", "@ x"} {
		if Check(entry) == nil {
			t.Errorf("%q is taken", entry)
		}
	}
}

// TestConnect checks when new connections have their turns: those of one host wait, up to a
// limit, and those of another do not.
func TestConnect(t *testing.T) {
	now := time.Unix(1000, 0)
	var l Limiter
	for i := range connectionsAtOnce {
		if wait := l.Connect("a", now); wait != 0 {
			t.Fatalf("connection %d waits for %v", i, wait)
		}
	}
	const each = time.Second / connectionsASecond
	for i := range 3 * int(longestTurn/each) {
		if wait, want := l.Connect("a", now), min(time.Duration(i+1)*each, longestTurn); (wait - want).Abs() > time.Microsecond {
			t.Fatalf("connection %d waits for %v, want %v", connectionsAtOnce+i, wait, want)
		}
	}
	if wait := l.Connect("b", now); wait != 0 {
		t.Errorf("the first connection of another host waits for %v", wait)
	}
	if wait := l.Connect("a", now.Add(longestTurn+time.Second)); wait != 0 {
		t.Errorf("a connection waits for %v after all have had their turns", wait)
	}
}

// TestLimiter checks the limits on requests and refusals, for one client and for all, and the
// state that many clients leave.
func TestLimiter(t *testing.T) {
	now := time.Unix(1000, 0)
	var l Limiter
	asks := func(key string) bool {
		end, ok := l.Begin(key, now)
		if ok {
			end()
		}
		return ok
	}
	for i := range requestsAtOnce {
		if !asks("a") {
			t.Fatalf("refused after %d", i)
		}
	}
	if asks("a") || !asks("b") {
		t.Error("one client asks too often, and another one is refused, or neither")
	}
	now = now.Add(time.Second)
	for i := range requestsASecond {
		if !asks("a") {
			t.Fatalf("refused after a second and %d", i)
		}
	}
	if asks("a") {
		t.Error("a second gives more than it should")
	}
	for i := range refusalsAtOnce {
		if !l.Refused("c", now) {
			t.Errorf("refusal %d is not told of", i)
		}
	}
	if l.Refused("c", now) {
		t.Error("all refusals are told of")
	}
	if !asks("c") {
		t.Error("a client that was refused so often may not ask")
	}
	if now = now.Add(2 * time.Second); !l.Refused("c", now) {
		t.Error("no refusal is told of any more")
	}
	var ends []func()
	for range mostUnderWay {
		end, ok := l.Begin("d", now)
		if !ok {
			t.Fatal("too few at a time")
		}
		ends = append(ends, end)
	}
	if asks("d") {
		t.Error("too much is under way")
	}
	for _, end := range ends {
		end()
	}
	if !asks("d") {
		t.Error("what has ended counts")
	}
	end, _ := l.Begin("keeps", now)
	for i := range 100_000 {
		asks(fmt.Sprint("client ", i))
	}
	if n := len(l.clients); n > mostClients || l.clients["keeps"] == nil {
		t.Errorf("%d clients are kept", n)
	}
	end()
}

// TestDamagedTokens checks that an unreadable file yields no valid token, and is not replaced.
func TestDamagedTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := tokens.Create("a", api.Operator, time.Hour, "x", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[20] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := OpenTokens(path)
	if err == nil {
		t.Error("damage is not noticed")
	}
	if _, valid := again.Find(secret, time.Now()); valid {
		t.Error("a token of a damaged file is valid")
	}
	if _, _, err := again.Create("b", api.Viewer, time.Hour, "x", time.Now()); err == nil {
		t.Error("a damaged file is replaced")
	}
	if now, _ := os.ReadFile(path); string(now) != string(text) {
		t.Error("the file is another one")
	}
}

// TestTokensForm reads a file as every version has written it, and writes it in the same form.
func TestTokensForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	const form = `{"name":"a","role":"operator","created":"2026-07-01T08:00:00Z","expires":"2026-08-01T08:00:00Z","by":"x","hash":"00"}`
	if err := os.WriteFile(path, sealed.Seal([]byte(`{"tokens":[`+form+`]}`)), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 7, 2, 8, 0, 0, 0, time.UTC)
	want := api.Token{Name: "a", Role: api.Operator, Created: now.AddDate(0, 0, -1), Expires: now.AddDate(0, 0, 30), By: "x"}
	if list := tokens.List(now); len(list) != 1 || list[0] != want {
		t.Errorf("%+v, want %+v", list, want)
	}
	if _, _, err := tokens.Create("b", api.Viewer, time.Hour, "x", now); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	var compact bytes.Buffer
	if err == nil {
		err = json.Compact(&compact, text)
	}
	if err != nil || !strings.Contains(compact.String(), form) {
		t.Errorf("%v: written as %s", err, text)
	}
}
