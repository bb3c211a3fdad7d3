package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
)

// Access defines how callers are identified, and how often they may ask.
type Access struct {
	Lists        *access.Lists
	Tokens       *access.Tokens
	Certificates *access.Certificates // nil without TLS
	Limiter      *access.Limiter      // if nil, clients have no limit
	Peer         string               // host of the other forsd, which its certificate is for; "" if none
}

// via is the kind of a listener.
type via uint8

const (
	bySocket via = iota
	byTCP        // without TLS
	byTLS
)

// Why a request was refused before an endpoint had it, for counting.
const (
	RefusedRole        = "role"
	RefusedToken       = "token"
	RefusedCertificate = "certificate"
	RefusedStranger    = "stranger" // a browser may have been tricked
	RefusedRate        = "rate"
)

// refuse counts a refusal.
func (s *service) refuse(reason string) {
	if s.Refused != nil {
		s.Refused(reason)
	}
}

// identify returns the caller of a request, with its role.
func (s *service) identify(r *http.Request) (*api.Caller, error) {
	c := api.Caller{From: r.RemoteAddr}
	switch s.via {
	case bySocket:
		c = api.Caller{Way: api.WaySocket}
		known := access.CallerOf(r.Context())
		if known != nil {
			c = *known
		}
		c.Role = s.onSocket(known)
	case byTCP:
		if c.Way = api.WayTCP; s.ReadOverTCP {
			c.Role = api.Reader
		}
	case byTLS:
		c.Way = api.WayTLS
		shown, err := s.Access.Certificates.Verified(r.TLS, time.Now())
		if err != nil {
			s.refuse(RefusedCertificate)
			return nil, unauthorized("%v: get another one", err)
		}
		if shown != nil {
			c.Way, c.User, c.Role = api.WayCertificate, shown.Subject.CommonName, s.Access.Lists.OfCertificate(shown)
			c.Peer = s.Access.Peer != "" && shown.VerifyHostname(s.Access.Peer) == nil
		}
	}
	secret, has := bearer(r)
	if !has {
		return &c, nil
	}
	if s.via == byTCP {
		s.refuse(RefusedToken)
		return nil, unauthorized("tokens are accepted over TLS and on the Unix socket only: this one has crossed the network in the clear, revoke it")
	}
	if s.Access != nil && s.Access.Tokens != nil {
		if t, valid := s.Access.Tokens.Find(secret, time.Now()); valid {
			c.Way, c.User, c.Role, c.Peer = api.WayToken, t.Name, t.Role, false
			return &c, nil
		}
	}
	s.refuse(RefusedToken)
	return nil, unauthorized("the token is not valid: it has expired, or was revoked, or never was")
}

// onSocket returns the role of a caller on the Unix socket, nil if the kernel does not know
// the caller.
func (s *service) onSocket(c *api.Caller) api.Role {
	switch {
	case s.Access == nil || s.Access.Lists == nil:
		return api.Administrator
	case c == nil || c.UID == nil:
		return s.Access.Lists.OfUser(^uint32(0), "", nil)
	}
	return s.Access.Lists.OfUser(*c.UID, c.User, c.Groups)
}

// unauthorized returns the error of a caller that is not known.
func unauthorized(format string, args ...any) *api.Error {
	return api.Errorf(api.CodeUnauthorized, format, args...)
}

// bearer returns the token that a request has.
func bearer(r *http.Request) (string, bool) {
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(secret), strings.EqualFold(kind, "Bearer")
}

// permit refuses what a caller may not do.
func (s *service) permit(need api.Role, c *api.Caller) error {
	switch {
	case c.Role >= need:
		return nil
	case c.Way == api.WayTCP && need > api.Reader && s.Access != nil && s.Access.Certificates != nil:
		return api.Errorf(api.CodeForbidden, "this is accepted on the Unix socket and over TLS only: TCP without TLS is for reading")
	case c.Way == api.WayTCP && need > api.Reader:
		return api.Errorf(api.CodeForbidden, "this is accepted on the Unix socket only: ask there, with forsctl on the host of forsd or by curl --unix-socket")
	case c.Way == api.WayTCP:
		return api.Errorf(api.CodeForbidden, "reading over TCP is switched off: set api.read_over_tcp in forsd.yaml, or ask on the Unix socket")
	case c.Way == api.WayTLS:
		return unauthorized("forsd does not know who asks: show a certificate of a client, or a token (Authorization: Bearer …)")
	}
	return api.Errorf(api.CodeForbidden, "%s has the role %s, and this takes the role %s: see api.administrators, api.operators and api.viewers in forsd.yaml", c, c.Role, need)
}

// forOtherForsd lets the other forsd in, and says to another certificate what it takes.
func forOtherForsd(c *api.Caller, refused error) error {
	switch {
	case c.Peer:
		return nil
	case c.Way != api.WayCertificate:
		return refused
	}
	return api.Errorf(api.CodeForbidden, "this is for the other forsd, which is known over TLS by a certificate for the host of peer.address: %s is not", c)
}

// clientKey identifies a client for rate limits.
func clientKey(c *api.Caller) string {
	switch {
	case c.Way == api.WaySocket && c.UID != nil:
		return fmt.Sprint("uid ", *c.UID)
	case c.Way == api.WayCertificate || c.Way == api.WayToken:
		return c.Way + " " + c.User
	}
	return keyOf(c.From)
}

// keyOf names a client by its address.
func keyOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// admit lets a client ask, or tells it to ask later.
func (s *service) admit(key string) (end func(), err error) {
	if s.Access == nil || s.Access.Limiter == nil {
		return func() {}, nil
	}
	end, ok := s.Access.Limiter.Begin(key, time.Now())
	if !ok {
		s.refuse(RefusedRate)
		return nil, api.Busy("this client asks too often, or has too much under way: ask again later")
	}
	return end, nil
}

// turnedAway returns the answer to a client that may not do a thing. A client that tries too
// often is told to wait, and is not reported.
func (s *service) turnedAway(r *http.Request, key string, err error) error {
	if s.Access == nil || s.Access.Limiter == nil || s.Access.Limiter.Refused(key, time.Now()) {
		return err
	}
	access.RequestOf(r.Context()).Told = true
	s.refuse(RefusedRate)
	return api.Busy("this client was refused too often: ask again later")
}

// stillMay reports whether a caller may continue a long request: its token may have been
// revoked since.
func (s *service) stillMay(r *http.Request, need api.Role) bool {
	c, err := s.identify(r)
	return err == nil && c.Role >= need
}

// tell records an order that its endpoint has not recorded, and a refused one.
func (s *service) tell(ctx context.Context, r *http.Request, answer *statusWriter) {
	if s.Ordered == nil || access.RequestOf(ctx).Told {
		return
	}
	result := ""
	if answer.err == nil {
		result = http.StatusText(answer.status)
	}
	s.Ordered(ctx, r.Method+" "+r.URL.Path, result, answer.err)
}

// statusWriter notes what was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
	err    error // that was answered
}

// WriteHeader notes the status.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// whoami answers GET /v1/whoami.
func whoami(w http.ResponseWriter, r *http.Request) error {
	return WriteJSON(w, r, access.CallerOf(r.Context()))
}

// policy is what browsers may do with an answer: a page of forsd's has its scripts, styles
// and data from forsd alone.
var policy = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Resource-Policy": "same-origin",
}
