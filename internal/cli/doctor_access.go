package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/server"
)

// checkAccess checks that the API is served as configured, and that the credentials of clients
// are valid. It asks a running forsd, or else reads the files that forsd would start with.
func (d *doctor) checkAccess() {
	before := len(d.Checks)
	if d.status != nil {
		for _, w := range d.status.Warnings {
			if slices.ContainsFunc(access.Kinds(), func(k health.Warnable) bool { return k.Code == w.Code }) {
				d.expires(w.Code, w.Text)
			}
		}
	} else {
		d.wouldServe()
	}
	if len(d.Checks) == before {
		d.note("access", good, "nothing of the API's certificates and tokens expires soon, and its addresses can be listened on")
	}
}

// wouldServe checks the files and addresses of the API if forsd does not run.
func (d *doctor) wouldServe() {
	c := &d.config.API
	if c.TLS.Certificate != "" {
		certificates := access.LoadCertificates(c.TLS.Files, func(err error) {
			d.note(access.Incomplete, fail, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		})
		for _, f := range access.Judge(certificates.Terms(), time.Now()) {
			d.expires(f.Code, f.Text)
		}
	}
	for _, x := range []struct{ setting, address string }{{"api.listen", c.Listen}, {"api.tls.listen", c.TLS.Listen}} {
		if x.address == "" {
			continue
		}
		if err := server.CanListen(x.address); err != nil {
			d.note(access.ListenerDown, fail, "%s: %v", x.setting, err)
		}
	}
}

// expires adds a finding for a warning about access. It fails if something has expired.
func (d *doctor) expires(code, text string) {
	g := warn
	if code == access.Expired {
		g = fail
	}
	d.note(code, g, "%s", text)
}
