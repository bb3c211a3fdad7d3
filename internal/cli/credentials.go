package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
)

// credentialFlags adds the flags by which forsctl is known over TLS, and knows forsd.
func credentialFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.String("ca", os.Getenv("FORSD_CA"), "PEM `file` of the authorities for https (environment FORSD_CA; default those of the system)")
	f.String("cert", os.Getenv("FORSD_CERT"), "PEM `file` of a certificate to show over https (environment FORSD_CERT)")
	f.String("key", os.Getenv("FORSD_KEY"), "PEM `file` of its key (environment FORSD_KEY)")
	f.String("token-file", os.Getenv("FORSD_TOKEN_FILE"), "`file` with a token (environment FORSD_TOKEN_FILE)")
}

// credentials are by what the flags say that forsctl is known.
func credentials(cmd *cobra.Command) (out api.Credentials, err error) {
	flag := func(name string) string { v, _ := cmd.Flags().GetString(name); return v }
	ca, cert, key, token := flag("ca"), flag("cert"), flag("key"), flag("token-file")
	if token != "" {
		text, err := command.ReadPath(token, 1<<10)
		if err != nil {
			return out, fmt.Errorf("--token-file: %w", err)
		}
		out.Token = strings.TrimSpace(string(text))
	}
	if ca+cert+key == "" {
		return out, nil
	}
	out.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := command.ReadPath(ca, command.MaxFile)
		if err != nil {
			return out, fmt.Errorf("--ca: %w", err)
		}
		if out.TLS.RootCAs = x509.NewCertPool(); !out.TLS.RootCAs.AppendCertsFromPEM(text) {
			return out, fmt.Errorf("--ca %s: there is no certificate in it", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return out, fmt.Errorf("--cert and --key: %w", err)
		}
		out.TLS.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// writeSecret writes a file that only its owner may read.
func writeSecret(path string, data []byte) error { return writeAs(path, data, 0o600) }

// writeAs writes a file with permissions of its own, whatever those of the file that it replaces.
func writeAs(path string, data []byte, mode fs.FileMode) error {
	f, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }() // nothing is left once it has replaced the other
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
