package access

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/forsd/forsd/internal/health"
)

// Files are the files of the TLS listener.
type Files struct {
	Certificate string `yaml:"certificate" is:"file or none"`
	Key         string `yaml:"key" is:"file or none"`
	ClientCA    string `yaml:"client_ca" is:"file or none"` // accepted issuer of clients' certificates; may be empty
	Revoked     string `yaml:"revoked" is:"file or none"`   // a list of revoked certificates (CRL); may be empty
}

// Certificates are the current content of the files, which are reloaded when one has changed.
// If a file cannot be used, its previous content remains valid. Without any previous content,
// no certificate is presented or accepted.
type Certificates struct {
	files Files
	note  func(error) // called with an error once for each change; with nil when all files are valid again

	mu     sync.Mutex // guards the fields below
	looked time.Time
	stamps [4]stamp
	now    *loaded
}

// stamp identifies a version of a file.
type stamp struct {
	at   time.Time
	size int64
}

// loaded is the content of the files. Everything except chains is immutable.
type loaded struct {
	certificate *tls.Certificate // nil before one could be read
	leaf        *x509.Certificate
	authorities []*x509.Certificate
	clients     *x509.CertPool // nil if client certificates are not accepted
	lists       []*x509.RevocationList
	revoked     map[string]bool // by issuer and serial number

	mu     sync.Mutex                                  // guards chains
	chains map[[sha256.Size]byte][][]*x509.Certificate // verified chains, by the certificates presented
}

const (
	lookEvery  = time.Second // interval between checks for changed files
	mostChains = 4096        // maximum size of chains
)

// LoadCertificates reads the files. It calls note with errors, now and after later changes.
func LoadCertificates(files Files, note func(error)) *Certificates {
	c := &Certificates{files: files, note: note}
	var err error
	c.looked, c.stamps = time.Now(), c.stat()
	if c.now, err = load(files, &loaded{}); err != nil {
		note(err)
	}
	return c
}

func (c *Certificates) stat() (out [4]stamp) {
	for i, path := range []string{c.files.Certificate, c.files.Key, c.files.ClientCA, c.files.Revoked} {
		if info, err := os.Stat(path); path != "" && err == nil {
			out[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return out
}

// current returns the current content of the files.
func (c *Certificates) current() *loaded {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < lookEvery {
		return c.now
	}
	c.looked = time.Now()
	if stamps := c.stat(); stamps != c.stamps {
		c.stamps = stamps
		var err error
		c.now, err = load(c.files, c.now)
		c.note(err)
	}
	return c.now
}

// load reads each of the files separately, so that removing an authority takes effect even if
// another file is damaged.
func load(f Files, before *loaded) (*loaded, error) {
	out := &loaded{certificate: before.certificate, leaf: before.leaf, authorities: before.authorities, clients: before.clients,
		lists: before.lists, chains: map[[sha256.Size]byte][][]*x509.Certificate{}}
	pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		err = fmt.Errorf("read the certificate %s and its key %s: %w", f.Certificate, f.Key, err)
	} else {
		out.certificate, out.leaf = &pair, pair.Leaf
	}
	if f.ClientCA != "" {
		authorities, bad := readPEM(f.ClientCA, "certificates", "none", x509.ParseCertificate)
		if err = errors.Join(err, bad); bad == nil {
			out.authorities, out.clients = authorities, x509.NewCertPool()
			for _, a := range authorities {
				out.clients.AddCert(a)
			}
		}
	}
	if f.Revoked != "" {
		lists, bad := readRevoked(f.Revoked, out.authorities)
		switch {
		case bad == nil:
			out.lists = lists
		case before.lists == nil:
			out.clients = nil // accept none until the revoked certificates are known
		}
		err = errors.Join(err, bad)
	}
	out.revoked = map[string]bool{}
	for _, list := range out.lists {
		for _, e := range list.RevokedCertificateEntries {
			out.revoked[string(list.RawIssuer)+"/"+e.SerialNumber.String()] = true
		}
	}
	return out, err
}

// readPEM reads all parts of a PEM file, of which there must be one.
func readPEM[T any](path, what, missing string, parse func(der []byte) (T, error)) (out []T, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		x, err := parse(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read %s %s: %w", what, path, err)
		}
		out = append(out, x)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read %s %s: there is %s in it", what, path, missing)
	}
	return out, nil
}

// readRevoked reads lists of revoked certificates, each signed by one of the authorities.
func readRevoked(path string, authorities []*x509.Certificate) ([]*x509.RevocationList, error) {
	return readPEM(path, "the revoked certificates", "no list", func(der []byte) (*x509.RevocationList, error) {
		list, err := x509.ParseRevocationList(der)
		if err == nil && !slices.ContainsFunc(authorities, func(a *x509.Certificate) bool { return list.CheckSignatureFrom(a) == nil }) {
			err = fmt.Errorf("no authority of the clients has signed the list of %s", list.Issuer)
		}
		return list, err
	})
}

// errNoCertificate ends a handshake while forsd has no certificate.
var errNoCertificate = errors.New("forsd has no certificate that can be used")

// Server returns the TLS configuration of the listener. Client certificates are optional. It
// only speaks HTTP/1.1: with HTTP/2 a client could make forsd store a body before forsd reads
// it.
func (c *Certificates) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := c.current()
		if now.certificate == nil {
			return nil, errNoCertificate
		}
		config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*now.certificate}, NextProtos: []string{"http/1.1"}}
		if now.clients != nil {
			config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, now.clients
		}
		return config, nil
	}}
}

// Client returns the configuration for requests to the peer. It uses the same certificates, and
// the peer must have one of them too.
func (c *Certificates) Client() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection verifies with the current authorities
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: s.ServerName, Roots: c.current().clients, Intermediates: pool(s.PeerCertificates[1:])})
			return err
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if now := c.current(); now.certificate != nil {
				return now.certificate, nil
			}
			return nil, errNoCertificate
		}}
}

func pool(list []*x509.Certificate) *x509.CertPool {
	out := x509.NewCertPool()
	for _, c := range list {
		out.AddCert(c)
	}
	return out
}

// Verified returns the certificate of a client, or nil. A connection may outlast its
// certificate and the authority that signed it, so both are checked for each request.
func (c *Certificates) Verified(state *tls.ConnectionState, at time.Time) (*x509.Certificate, error) {
	now := c.current()
	if state == nil || len(state.PeerCertificates) == 0 || now.clients == nil {
		return nil, nil
	}
	shown := state.PeerCertificates
	chains, err := now.verify(shown, at)
	if err != nil {
		return nil, fmt.Errorf("the certificate of %s does not hold: %w", shown[0].Subject, err)
	}
	var why error
	for _, chain := range chains {
		if why = now.holds(chain, at); why == nil {
			return shown[0], nil
		}
	}
	return nil, why
}

// verify returns the chains from the presented certificates to the authorities.
func (l *loaded) verify(shown []*x509.Certificate, at time.Time) ([][]*x509.Certificate, error) {
	h := sha256.New()
	for _, c := range shown {
		h.Write(c.Raw)
	}
	key := [sha256.Size]byte(h.Sum(nil))
	l.mu.Lock()
	defer l.mu.Unlock()
	if chains, known := l.chains[key]; known {
		return chains, nil
	}
	chains, err := shown[0].Verify(x509.VerifyOptions{Roots: l.clients, Intermediates: pool(shown[1:]), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err == nil {
		if len(l.chains) >= mostChains {
			clear(l.chains)
		}
		l.chains[key] = chains
	}
	return chains, err
}

// holds returns an error if a chain of certificates is not valid at the time.
func (l *loaded) holds(chain []*x509.Certificate, at time.Time) error {
	for _, c := range chain {
		switch {
		case at.After(c.NotAfter):
			return fmt.Errorf("the certificate of %s has expired", c.Subject)
		case l.revoked[string(c.RawIssuer)+"/"+c.SerialNumber.String()]:
			return fmt.Errorf("the certificate of %s is revoked", c.Subject)
		}
	}
	return nil
}

// Names reports whether forsd's certificate is valid for a host.
func (c *Certificates) Names(host string) bool {
	leaf := c.current().leaf
	return leaf != nil && leaf.VerifyHostname(host) == nil
}

// Terms returns the periods of validity of the certificates and lists.
func (c *Certificates) Terms() []Term {
	now := c.current()
	var out []Term
	if now.leaf != nil {
		out = append(out, Term{"certificate", "the certificate of " + now.leaf.Subject.String() + " in " + c.files.Certificate + ", of the key " + c.files.Key + ",", now.leaf.NotBefore, now.leaf.NotAfter})
	}
	for _, a := range now.authorities {
		out = append(out, Term{"client_ca", "the authority " + a.Subject.String() + " in " + c.files.ClientCA, a.NotBefore, a.NotAfter})
	}
	for _, l := range now.lists {
		if !l.NextUpdate.IsZero() {
			out = append(out, Term{"revoked", "the list of revoked certificates of " + l.Issuer.String() + " in " + c.files.Revoked, l.ThisUpdate, l.NextUpdate})
		}
	}
	return out
}

// The codes of the warnings about expiry and about unusable files.
const (
	Incomplete     = "access-incomplete"
	ListenerDown   = "listener-down"
	ExpiresSoon    = "expires-soon"    // within 30 days
	ExpiresShortly = "expires-shortly" // within 7 days
	Expired        = "expired"
)

// Kinds returns the kinds of these warnings.
func Kinds() []health.Warnable {
	return []health.Warnable{
		{Code: Incomplete, Severity: health.Degraded, Title: "Clients lack rights that they should have"},
		{Code: ListenerDown, Severity: health.Degraded, Title: "The API does not listen everywhere"},
		{Code: ExpiresSoon, Severity: health.Info, Title: "Something expires within 30 days"},
		{Code: ExpiresShortly, Severity: health.Degraded, Title: "Something expires within 7 days"},
		{Code: Expired, Severity: health.Degraded, Title: "Something has expired"},
	}
}

// Term is the period of validity of a credential.
type Term struct {
	Kind        string // for the metric: certificate, client_ca, revoked, token or lease
	Name        string // in words
	From, Until time.Time
}

const (
	day  = 24 * time.Hour
	soon = 30 * day
	near = 7 * day
)

// Judge returns the warning for a term, or "" for both. Certificates issued for less than 30
// days, or 7, are meant to expire, and only warn once they have.
func (t Term) Judge(now time.Time) (code, text string) {
	left, life := t.Until.Sub(now), t.Until.Sub(t.From)
	at := t.Until.UTC().Format("2006-01-02 15:04 UTC")
	switch {
	case left <= 0:
		return Expired, t.Name + " has expired at " + at + ": renew or remove it"
	case left <= near && life > near:
		return ExpiresShortly, t.Name + " expires at " + at + ": renew or remove it"
	case left <= soon && life > soon:
		return ExpiresSoon, t.Name + " expires at " + at + ": renew or remove it"
	}
	return "", ""
}

// Judge returns the findings about all terms.
func Judge(terms []Term, now time.Time) (out []health.Finding) {
	for _, t := range terms {
		if code, text := t.Judge(now); code != "" {
			out = append(out, health.Finding{Code: code, Text: text})
		}
	}
	return out
}
