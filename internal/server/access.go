package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
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
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return &c, nil
	}
	if s.via == byTCP {
		s.refuse(RefusedToken)
		return nil, unauthorized("tokens are accepted over TLS and on the Unix socket only: this one has crossed the network in the clear, revoke it")
	}
	if s.Access != nil && s.Access.Tokens != nil {
		if t, valid := s.Access.Tokens.Find(strings.TrimSpace(secret), time.Now()); valid {
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

// policy is what browsers may do with an answer: a page of forsd's has its scripts, styles
// and data from forsd alone.
var policy = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Resource-Policy": "same-origin",
}

// withCaller notes who has made a connection.
func withCaller(ctx context.Context, c net.Conn) context.Context {
	b, bounded := c.(*boundedConn)
	if !bounded || b.peer == nil {
		return ctx
	}
	p := b.peer
	who := &api.Caller{Way: api.WaySocket, User: users.name(p.Uid, time.Now()), UID: &p.Uid, PID: p.Pid, Groups: append(p.Groups, p.Gid)}
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.Pid)); err == nil {
		who.Process = strings.TrimSpace(string(comm))
	}
	return access.With(ctx, &access.Request{Caller: who})
}

// users holds names of users.
var users userNames

// userNames are the names of users for a minute: to read them for each connection takes longer
// than most answers.
type userNames struct {
	mu    sync.Mutex // guards the fields below
	names map[uint32]string
	until time.Time
}

// name returns a user's name, "" if there is none.
func (n *userNames) name(uid uint32, now time.Time) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.After(n.until) {
		n.names, n.until = map[uint32]string{}, now.Add(time.Minute)
	}
	name, known := n.names[uid]
	if !known {
		if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
			name = u.Username
		}
		n.names[uid] = name
	}
	return name
}

// createToken answers POST /v1/tokens.
func (s *service) createToken(r *http.Request) (any, error) {
	var q api.TokenRequest
	if err := ReadJSON(r, &q); err != nil {
		return nil, err
	}
	life := api.DefaultTokenLife
	if q.ExpiresSeconds != 0 {
		if q.ExpiresSeconds < 0 || q.ExpiresSeconds > int64(access.MostLife/time.Second) {
			return nil, api.BadRequest("expires_seconds %d: %v", q.ExpiresSeconds, access.ErrLife)
		}
		life = time.Duration(q.ExpiresSeconds) * time.Second
	}
	secret, made, err := s.Access.Tokens.Create(q.Name, q.Role, life, access.CallerOf(r.Context()).Name(), time.Now())
	if err != nil {
		return nil, tokenError(q.Name, err)
	}
	s.told(r.Context(), "create token "+made.Name+" for the role "+made.Role.String()+" until "+made.Expires.Format(time.RFC3339), nil)
	return api.NewToken{Token: made, Secret: secret}, nil
}

// revokeToken answers DELETE /v1/tokens/{token}.
func (s *service) revokeToken(r *http.Request) (any, error) {
	was, err := s.Access.Tokens.Revoke(r.PathValue("token"), time.Now())
	if err != nil {
		return nil, tokenError(r.PathValue("token"), err)
	}
	s.told(r.Context(), "revoke token "+was.Name, nil)
	return was, nil
}

// told records an order in words of its own.
func (s *service) told(ctx context.Context, what string, err error) {
	if s.Ordered != nil {
		s.Ordered(ctx, what, "done", err)
		access.RequestOf(ctx).Told = true
	}
}

// tokenError is why there is no such token, as the API has it.
func tokenError(name string, err error) error {
	switch {
	case errors.Is(err, access.ErrUnknown):
		return api.NotFound("token %.80q: %v", name, err)
	case errors.Is(err, access.ErrTaken), errors.Is(err, access.ErrMany):
		return api.Refused("token %.80q: %v", name, err)
	case errors.Is(err, access.ErrName), errors.Is(err, access.ErrRole), errors.Is(err, access.ErrLife):
		return api.BadRequest("token %.80q: %v", name, err)
	}
	return err
}
