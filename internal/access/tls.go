package access

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Files are those of the TLS listener.
type Files struct {
	Certificate, Key string
	ClientCA         string // whose certificates clients may show; "" for none
	Revoked          string // a list of revoked certificates (CRL); "" for none
}

// Certificates are those files as they are now. They are read anew when one has changed;
// where that fails, what was read before stays.
type Certificates struct {
	files Files
	note  func(error) // what is wrong, once for each change; nil where all is well again

	mu     sync.Mutex // guards what follows
	looked time.Time
	stamps [4]stamp
	now    *loaded
}

// stamp tells a file from what it was.
type stamp struct {
	at   time.Time
	size int64
}

// loaded is what the files say.
type loaded struct {
	certificate tls.Certificate
	leaf        *x509.Certificate
	clients     *x509.CertPool
	revoked     map[string]bool // issuer and serial number
}

// lookEvery is how often it is looked whether the files have changed.
const lookEvery = time.Second

// LoadCertificates reads the files. Note is told what is wrong with them later on.
func LoadCertificates(files Files, note func(error)) (*Certificates, error) {
	c := &Certificates{files: files, note: note}
	now, err := load(files)
	if err != nil {
		return nil, err
	}
	c.now, c.stamps, c.looked = now, c.stat(), time.Now()
	return c, nil
}

func (c *Certificates) stat() (out [4]stamp) {
	for i, path := range []string{c.files.Certificate, c.files.Key, c.files.ClientCA, c.files.Revoked} {
		if info, err := os.Stat(path); path != "" && err == nil {
			out[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return out
}

// current is what the files say now.
func (c *Certificates) current() *loaded {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < lookEvery {
		return c.now
	}
	c.looked = time.Now()
	stamps := c.stat()
	if stamps == c.stamps {
		return c.now
	}
	c.stamps = stamps
	next, err := load(c.files)
	if err == nil {
		c.now = next
	}
	c.note(err)
	return c.now
}

func load(f Files) (*loaded, error) {
	out := &loaded{revoked: map[string]bool{}}
	var err error
	if out.certificate, err = tls.LoadX509KeyPair(f.Certificate, f.Key); err != nil {
		return nil, fmt.Errorf("read the certificate %s and its key %s: %w", f.Certificate, f.Key, err)
	}
	if out.leaf, err = x509.ParseCertificate(out.certificate.Certificate[0]); err != nil {
		return nil, fmt.Errorf("read the certificate %s: %w", f.Certificate, err)
	}
	var authorities []*x509.Certificate
	if f.ClientCA != "" {
		if authorities, err = readCertificates(f.ClientCA); err != nil {
			return nil, err
		}
		out.clients = x509.NewCertPool()
		for _, a := range authorities {
			out.clients.AddCert(a)
		}
	}
	if f.Revoked != "" {
		if err := out.readRevoked(f.Revoked, authorities); err != nil {
			return nil, fmt.Errorf("read the revoked certificates %s: %w", f.Revoked, err)
		}
	}
	return out, nil
}

// readCertificates reads all certificates of a PEM file.
func readCertificates(path string) (out []*x509.Certificate, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read certificates %s: %w", path, err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read certificates %s: there is none in it", path)
	}
	return out, nil
}

// readRevoked reads lists of revoked certificates, each signed by one of the authorities.
func (l *loaded) readRevoked(path string, authorities []*x509.Certificate) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lists := 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(authorities, func(a *x509.Certificate) bool { return list.CheckSignatureFrom(a) == nil }) {
			return errors.New("no authority has signed it")
		}
		lists++
		for _, e := range list.RevokedCertificateEntries {
			l.revoked[string(list.RawIssuer)+"/"+e.SerialNumber.String()] = true
		}
	}
	if lists == 0 {
		return errors.New("there is no list in it")
	}
	return nil
}

// Server is how the listener speaks TLS. Clients may show a certificate, and need not.
func (c *Certificates) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := c.current()
		config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{now.certificate}, NextProtos: []string{"h2", "http/1.1"}}
		if now.clients != nil {
			config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, now.clients
		}
		return config, nil
	}}
}

// Client is how forsd asks the other one: by the same certificates, which the other one's
// must be of as well.
func (c *Certificates) Client() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.current().clients,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.current().certificate, nil }}
}

// Verified is the certificate that a client has shown, nil for none. A connection may
// outlast its certificate, so it is looked at for each request.
func (c *Certificates) Verified(state *tls.ConnectionState, at time.Time) (*x509.Certificate, error) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil, nil
	}
	now := c.current()
	var why error
	for _, chain := range state.VerifiedChains {
		if why = now.holds(chain, at); why == nil {
			return chain[0], nil
		}
	}
	return nil, why
}

// holds tells why a chain of certificates does not hold now.
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

// Names tells whether the certificate of forsd is for a host.
func (c *Certificates) Names(host string) bool { return c.current().leaf.VerifyHostname(host) == nil }
