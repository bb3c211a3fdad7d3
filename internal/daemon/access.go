package daemon

import (
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/health"
)

// accessIncomplete warns that somebody may not do what was meant.
const accessIncomplete = "access-incomplete"

// openAccess reads by what callers are known.
func (r *rooms) openAccess() {
	c := &r.cfg.API
	if u, err := url.Parse(r.cfg.Peer.Address); err == nil {
		r.access.Peer = u.Hostname()
	}
	var unknown []string
	r.access.Lists, unknown = access.Compile(access.Rules{Administrators: c.Administrators, Operators: c.Operators, Viewers: c.Viewers})
	if len(unknown) > 0 {
		r.incomplete("groups", "there is no group "+strings.Join(unknown, ", ")+": create it, or correct api.administrators, api.operators and api.viewers")
	}
	var err error
	if r.access.Tokens, err = access.OpenTokens(filepath.Join(r.cfg.StateDir, "tokens.json")); err != nil {
		r.incomplete("tokens", err.Error()+": remove the file, and create them anew")
	}
	if c.Listen != "" && c.ReadOverTCP {
		r.log.Info("everybody who can connect may read over TCP without TLS; nobody can change anything there", zap.String("address", c.Listen))
	}
}

// openCertificates reads forsd's certificates, without which it does not begin where it
// is to have some.
func (r *rooms) openCertificates() (err error) {
	c := &r.cfg.API
	if c.TLS.Certificate == "" {
		return nil
	}
	r.access.Certificates, err = access.LoadCertificates(access.Files{Certificate: c.TLS.Certificate, Key: c.TLS.Key, ClientCA: c.TLS.ClientCA, Revoked: c.TLS.Revoked}, func(err error) {
		if err != nil {
			r.incomplete("certificates", err.Error()+": those of before stay in use")
			return
		}
		r.log.Info("the certificates were read anew")
		r.incomplete("certificates", "")
	})
	return err
}

// incomplete warns of what is wrong with one of the ways in which callers are known, or
// takes that back.
func (r *rooms) incomplete(source, text string) {
	var found []health.Finding
	if text != "" {
		r.log.Error("somebody may not do what was meant", zap.String("because", text))
		found = []health.Finding{{Code: accessIncomplete, Text: text}}
	}
	r.health.Set("access "+source, found, time.Now())
}

// credentials are by what the other forsd knows this one.
func (r *rooms) credentials() api.Credentials {
	if r.access.Certificates == nil {
		return api.Credentials{}
	}
	return api.Credentials{TLS: r.access.Certificates.Client()}
}
