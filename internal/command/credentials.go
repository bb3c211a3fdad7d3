package command

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/forsd/forsd/api"
)

// Credentials are paths, each of which may be empty.
type Credentials struct {
	CA    string // PEM, authorities; by default those of the system
	Cert  string // PEM
	Key   string // PEM
	Token string
}

// CredentialsFromEnvironment returns the files named by FORSD_CA, FORSD_CERT, FORSD_KEY and
// FORSD_TOKEN_FILE.
func CredentialsFromEnvironment() Credentials {
	return Credentials{CA: os.Getenv("FORSD_CA"), Cert: os.Getenv("FORSD_CERT"), Key: os.Getenv("FORSD_KEY"), Token: os.Getenv("FORSD_TOKEN_FILE")}
}

// Read reads the files. Its errors use the names of the flags --ca, --cert, --key and
// --token-file.
func (f Credentials) Read() (out api.Credentials, err error) {
	if f.Token != "" {
		text, err := ReadPath(f.Token, 1<<10)
		if err != nil {
			return out, fmt.Errorf("--token-file: %w", err)
		}
		out.Token = strings.TrimSpace(string(text))
	}
	if f.CA+f.Cert+f.Key == "" {
		return out, nil
	}
	out.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := ReadPath(f.CA, MaxFile)
		if err != nil {
			return out, fmt.Errorf("--ca: %w", err)
		}
		if out.TLS.RootCAs = x509.NewCertPool(); !out.TLS.RootCAs.AppendCertsFromPEM(text) {
			return out, fmt.Errorf("--ca %s: there is no certificate in it", f.CA)
		}
	}
	if f.Cert != "" || f.Key != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return out, fmt.Errorf("--cert and --key: %w", err)
		}
		out.TLS.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
