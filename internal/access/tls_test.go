package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/authority"
)

// shown returns the state of a connection on which a certificate was presented.
func shown(t *testing.T, pair tls.Certificate) *tls.ConnectionState {
	t.Helper()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
}

// site is a folder with the files of a TLS listener.
type site struct {
	t     *testing.T
	dir   string
	notes []error
}

func (s *site) put(name string, text ...[]byte) string {
	s.t.Helper()
	path, all := filepath.Join(s.dir, name), []byte{}
	for _, x := range text {
		all = append(all, x...)
	}
	if err := os.WriteFile(path, all, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *site) load(f Files) *Certificates {
	return LoadCertificates(f, func(err error) { s.notes = append(s.notes, err) })
}

// again makes the files be checked now.
func again(c *Certificates) *Certificates {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = time.Time{}
	return c
}

// TestAuthorityTakenOut checks that removing an authority from client_ca ends its access on
// open connections, even if its list of revoked certificates remains or another file is
// damaged. Verified chains remain valid until the files change.
func TestAuthorityTakenOut(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	old, next := authority.New(t, "old"), authority.New(t, "next")
	_, cert, key := old.Issue(t, "forsd", time.Now().Add(time.Hour))
	f := Files{Certificate: s.put("cert.pem", cert), Key: s.put("key.pem", key), ClientCA: s.put("ca.pem", old.PEM(), next.PEM()), Revoked: filepath.Join(s.dir, "crl.pem")}
	pair, _, _ := old.Issue(t, "administrator", time.Now().Add(time.Hour))
	open := shown(t, pair)
	other, _, _ := next.Issue(t, "administrator", time.Now().Add(time.Hour))
	revoked, _, _ := old.Issue(t, "eve", time.Now().Add(time.Hour))
	old.Revoke(t, f.Revoked, old.Serial)
	c := s.load(f)
	holds := func(state *tls.ConnectionState, at time.Time) bool {
		t.Helper()
		leaf, err := again(c).Verified(state, at)
		if (leaf == nil) != (err != nil) {
			t.Errorf("%v, %v", leaf, err)
		}
		return err == nil
	}
	for range 2 { // the second time from the cache
		if !holds(open, time.Now()) || !holds(shown(t, other), time.Now()) || holds(shown(t, revoked), time.Now()) || holds(open, time.Now().Add(2*time.Hour)) {
			t.Fatal("good certificates do not hold, or bad ones do")
		}
	}
	s.put("key.pem", []byte("damaged"))
	s.put("ca.pem", next.PEM())
	if holds(open, time.Now()) || !holds(shown(t, other), time.Now()) {
		t.Error("an authority that was taken out is in force")
	}
	if last := s.notes[len(s.notes)-1]; last == nil || !strings.Contains(last.Error(), "key.pem") || !strings.Contains(last.Error(), "crl.pem") {
		t.Errorf("a damaged key and a list of an unknown authority: %v", last)
	}
	if holds(shown(t, revoked), time.Now()) {
		t.Error("a revoked certificate holds")
	}
}

// TestNoFiles starts without usable files: no certificate is presented or accepted. It checks
// that the files are used as soon as they exist.
func TestNoFiles(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	ca := authority.New(t, "authority")
	f := Files{Certificate: filepath.Join(s.dir, "cert.pem"), Key: filepath.Join(s.dir, "key.pem"), ClientCA: filepath.Join(s.dir, "ca.pem"), Revoked: filepath.Join(s.dir, "crl.pem")}
	c := s.load(f)
	if len(s.notes) != 1 || s.notes[0] == nil {
		t.Errorf("missing files: %v", s.notes)
	}
	hello := func() error { _, err := again(c).Server().GetConfigForClient(nil); return err }
	pair, _, _ := ca.Issue(t, "viewer", time.Now().Add(time.Hour))
	if err := hello(); !errors.Is(err, errNoCertificate) || c.Names("forsd") || len(c.Terms()) > 0 {
		t.Errorf("there is no certificate: %v", err)
	}
	_, cert, key := ca.Issue(t, "forsd", time.Now().Add(time.Hour))
	s.put("cert.pem", cert)
	s.put("key.pem", key)
	s.put("ca.pem", ca.PEM())
	if leaf, err := again(c).Verified(shown(t, pair), time.Now()); leaf != nil || err != nil {
		t.Errorf("without the list of revoked certificates: %v, %v", leaf, err)
	}
	ca.Revoke(t, f.Revoked)
	if leaf, err := again(c).Verified(shown(t, pair), time.Now()); leaf == nil {
		t.Errorf("a good certificate: %v", err)
	}
	if err := hello(); err != nil || s.notes[len(s.notes)-1] != nil || !c.Names("127.0.0.1") || len(c.Terms()) != 3 {
		t.Errorf("all is there: %v, %v, %v", err, s.notes, c.Terms())
	}
}

// TestTerms checks that terms warn 30 and 7 days ahead if they are longer, and that all expired
// terms warn.
func TestTerms(t *testing.T) {
	from := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		life, after time.Duration
		want        string
	}{
		{90 * day, 0, ""}, {90 * day, 59 * day, ""}, {90 * day, 60 * day, ExpiresSoon}, {90 * day, 82 * day, ExpiresSoon}, {90 * day, 83 * day, ExpiresShortly},
		{90 * day, 90*day - 1, ExpiresShortly}, {90 * day, 90 * day, Expired}, {90 * day, 900 * day, Expired},
		{20 * day, 0, ""}, {20 * day, 13 * day, ExpiresShortly}, {20 * day, 20 * day, Expired},
		{day, 0, ""}, {day, 23 * time.Hour, ""}, {day, day, Expired},
	} {
		found := Judge([]Term{{"token", "the token a", from, from.Add(c.life)}}, from.Add(c.after))
		switch {
		case c.want == "" && len(found) > 0, c.want != "" && (len(found) != 1 || found[0].Code != c.want):
			t.Errorf("made for %s, after %s: %v, want %q", c.life, c.after, found, c.want)
		case c.want != "" && !strings.Contains(found[0].Text, "the token a"):
			t.Errorf("which one? %s", found[0].Text)
		}
	}
}

// TestExpiredTokens checks that an expired token is reported for a week, unless it is revoked
// or made again, and that it is neither valid nor listed.
func TestExpiredTokens(t *testing.T) {
	tokens, err := OpenTokens(filepath.Join(t.TempDir(), "tokens.json"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, name := range []string{"a", "b"} {
		if _, _, err := tokens.Create(name, api.Viewer, time.Hour, "x", now); err != nil {
			t.Fatal(err)
		}
	}
	later := now.Add(2 * time.Hour)
	if n := len(Judge(tokens.Terms(later), later)); n != 2 || len(tokens.List(later)) != 0 {
		t.Errorf("%d tokens that have expired are told of, and listed are %v", n, tokens.List(later))
	}
	if _, _, err := tokens.Create("a", api.Viewer, 100*day, "x", later); err != nil {
		t.Error(err)
	}
	if _, err := tokens.Revoke("b", later); err != nil {
		t.Error(err)
	}
	if found := Judge(tokens.Terms(later), later); len(found) > 0 {
		t.Errorf("renewed and revoked: %v", found)
	}
	if long := later.Add(108 * day); len(tokens.Terms(long)) != 0 {
		t.Error("it is told of for ever")
	}
}
