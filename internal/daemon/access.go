package daemon

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/server"
)

// callers identifies those who ask, by user, certificate and token.
type callers struct {
	log    *zap.Logger
	health *health.Tracker
	access *server.Access
}

// openCallers reads the configuration that identifies callers.
func openCallers(cfg *config.Config, log *zap.Logger, h *health.Tracker) *callers {
	r := &callers{log: log, health: h, access: &server.Access{Limiter: &access.Limiter{}}}
	r.openCertificates(cfg.API.TLS.Files)
	c := &cfg.API
	if u, err := url.Parse(cfg.Peer.Address); err == nil {
		r.access.Peer = u.Hostname()
	}
	var unknown []string
	r.access.Lists, unknown = access.Compile(access.Rules{Administrators: c.Administrators, Operators: c.Operators, Viewers: c.Viewers})
	if len(unknown) > 0 {
		r.incomplete("groups", "there is no group "+strings.Join(unknown, ", ")+": create it, or correct api.administrators, api.operators and api.viewers")
	}
	var err error
	if r.access.Tokens, err = access.OpenTokens(filepath.Join(cfg.StateDir, "tokens.json")); err != nil {
		r.incomplete("tokens", err.Error()+": remove the file, and create the tokens again")
	}
	if c.Listen != "" && c.ReadOverTCP {
		r.log.Info("all clients that can connect may read over TCP without TLS; changes are not accepted there", zap.String("address", c.Listen))
	}
	return r
}

// openCertificates reads forsd's certificates.
func (r *callers) openCertificates(files access.Files) {
	if files.Certificate != "" {
		r.access.Certificates = access.LoadCertificates(files, func(err error) {
			if err != nil {
				r.incomplete("certificates", strings.ReplaceAll(err.Error(), "\n", "; ")+": what was read before stays in use")
				return
			}
			r.log.Info("the certificates were read again")
			r.incomplete("certificates", "")
		})
	}
}

// listening raises or clears the warning that forsd cannot listen on an address.
func (r *callers) listening(setting string, err error) {
	var found []health.Finding
	if err != nil {
		found = []health.Finding{{Code: access.ListenerDown, Text: setting + ": " + err.Error() + "; it is tried again"}}
	} else {
		r.log.Info("listening", zap.String("setting", setting))
	}
	r.health.Set("listener "+setting, found, time.Now())
}

// terms returns how long certificates, tokens and leases are valid.
func terms(r *components, now time.Time) (out []access.Term) {
	if r.callers.access.Certificates != nil {
		out = r.callers.access.Certificates.Terms()
	}
	out = append(out, r.callers.access.Tokens.Terms(now)...)
	for _, j := range r.state.Now().Jobs {
		from := j.Leased.Wall
		if from.IsZero() {
			from = j.Created
		}
		out = append(out, access.Term{Kind: "lease", Name: "the lease of " + j.Label(), From: from, Until: j.Due(now)})
	}
	return out
}

// judgeEvery is how often forsd checks whether something expires.
const judgeEvery = time.Minute

// judgeTerms warns of everything that has expired or will soon.
func judgeTerms(ctx context.Context, r *components) error {
	for {
		now := time.Now()
		r.health.Set("terms", access.Judge(terms(r, now), now), now)
		select {
		case <-time.After(judgeEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// incomplete raises or clears the warning about one source of the callers' identities.
func (r *callers) incomplete(source, text string) {
	var found []health.Finding
	if text != "" {
		r.log.Error("access rules could not be fully applied", zap.String("because", text))
		found = []health.Finding{{Code: access.Incomplete, Text: text}}
	}
	r.health.Set("access "+source, found, time.Now())
}

// credentials returns the credentials for the other forsd.
func (r *callers) credentials() api.Credentials {
	if r.access.Certificates == nil {
		return api.Credentials{}
	}
	return api.Credentials{TLS: r.access.Certificates.Client()}
}
