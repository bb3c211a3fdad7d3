// Package authority signs certificates for tests, for clients and servers at 127.0.0.1, and
// revokes them.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"testing"
	"time"
)

func ok(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Authority signs certificates.
type Authority struct {
	Certificate *x509.Certificate
	Serial      int64 // of the certificate signed last

	key *ecdsa.PrivateKey
}

// New is an authority of a name.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{Serial: 100}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	own := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	raw, err := x509.CreateCertificate(rand.Reader, own, own, &a.key.PublicKey, a.key)
	ok(t, err)
	a.Certificate, err = x509.ParseCertificate(raw)
	ok(t, err)
	return a
}

// Issue signs a certificate for a name, and for it as a host of example.org, which is valid
// until then.
func (a *Authority) Issue(t testing.TB, name string, until time.Time, units ...string) (pair tls.Certificate, certificate, key []byte) {
	t.Helper()
	a.Serial++
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(a.Serial), Subject: pkix.Name{CommonName: name, OrganizationalUnit: units}, NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		DNSNames: []string{"fabric.example.org", name + ".example.org"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	raw, err := x509.CreateCertificate(rand.Reader, c, a.Certificate, &private.PublicKey, a.key)
	ok(t, err)
	der, err := x509.MarshalECPrivateKey(private)
	ok(t, err)
	certificate, key = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	pair, err = tls.X509KeyPair(certificate, key)
	ok(t, err)
	return pair, certificate, key
}

// Revoke writes a list of revoked certificates.
func (a *Authority) Revoke(t testing.TB, path string, serials ...int64) {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(time.Now().UnixNano()), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour)}
	for _, n := range serials {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: big.NewInt(n), RevocationTime: time.Now()})
	}
	raw, err := x509.CreateRevocationList(rand.Reader, list, a.Certificate, a.key)
	ok(t, err, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: raw}), 0o600))
}

// PEM is the authority's own certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate.Raw})
}
