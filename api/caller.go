package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Caller is who asked for something: as the kernel knows it, on the Unix socket, or by a
// certificate or a token.
type Caller struct {
	Way     string  `json:"way"` // how it is known; see the constants
	Role    Role    `json:"role"`
	User    string  `json:"user,omitempty"` // the name of the user, of the certificate, or of the token
	UID     *uint32 `json:"uid,omitempty"`  // on the Unix socket, as what follows
	PID     int32   `json:"pid,omitempty"`
	Process string  `json:"process,omitempty"`
	From    string  `json:"from,omitempty"` // address, over TCP
	Peer    bool    `json:"peer,omitempty"` // it is the other forsd

	Groups []uint32 `json:"-"` // of the user, on the Unix socket
}

// The ways in which callers are known.
const (
	WaySocket      = "socket"      // by the kernel, on the Unix socket
	WayCertificate = "certificate" // over TLS
	WayToken       = "token"
	WayTLS         = "tls" // over TLS, without either
	WayTCP         = "tcp" // over TCP without TLS
)

// String names the caller: anna (uid 1000) by forsctl (process 4711).
func (c *Caller) String() string {
	switch {
	case c == nil:
		return "unknown"
	case c.Way == WayCertificate || c.Way == WayToken && c.UID == nil:
		return fmt.Sprintf("%s (%s, from %s)", c.User, c.Way, c.From)
	case c.UID == nil:
		return strings.TrimPrefix(c.From+", unknown", ", ")
	}
	text := fmt.Sprintf("uid %d", *c.UID)
	if c.User != "" {
		text = fmt.Sprintf("%s (%s)", c.User, text)
	}
	if c.Way == WayToken {
		text = fmt.Sprintf("%s (token, uid %d)", c.User, *c.UID)
	}
	if c.Process != "" {
		return fmt.Sprintf("%s by %s (process %d)", text, c.Process, c.PID)
	}
	return fmt.Sprintf("%s by process %d", text, c.PID)
}

// Name returns the caller's name in the history: the user's name, or "uid 1000" if it has
// none.
func (c *Caller) Name() string {
	switch {
	case c != nil && c.User != "":
		return c.User
	case c != nil && c.UID != nil:
		return fmt.Sprintf("uid %d", *c.UID)
	}
	return "unknown"
}

// Role is a set of permissions. Each role includes the permissions of those before it.
type Role uint8

// The roles. A Reader is any client over TCP without TLS.
const (
	Nobody        Role = iota // health and metrics
	Reader                    // reads
	Viewer                    // reads, and asks what-if questions
	Operator                  // orders
	Administrator             // the baseline, settings, tokens
)

// roleNames are the names of roles.
var roleNames = [...]string{"nobody", "reader", "viewer", "operator", "administrator"}

// String returns the role's name.
func (r Role) String() string { return roleNames[r] }

// MarshalText returns the role's name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a role's name.
func (r *Role) UnmarshalText(text []byte) error {
	i := slices.Index(roleNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%.40q is not a role: want viewer, operator or administrator", text)
	}
	*r = Role(i)
	return nil
}

// Token describes a token. Only its owners know the token itself.
type Token struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at"`
	By      string    `json:"by"` // who created it
}

// TokenRequest asks for a token.
type TokenRequest struct {
	Name           string `json:"name"`
	Role           Role   `json:"role"`
	ExpiresSeconds int64  `json:"expires_seconds,omitempty"` // 0 for DefaultTokenLife
}

// NewToken is a token that was made. The secret is shown only this once.
type NewToken struct {
	Token
	Secret string `json:"secret"`
}

// TokenList is the answer to GET /v1/tokens: those that are valid, by name.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

// DefaultTokenLife is how long a token is valid that says nothing of it.
const DefaultTokenLife = 90 * 24 * time.Hour

// CreateToken has the daemon make a token.
func (c *Client) CreateToken(ctx context.Context, q TokenRequest) (*NewToken, error) {
	return ask[NewToken](ctx, c, http.MethodPost, "/v1/tokens", q)
}

// Tokens asks for the tokens that are valid, by name.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	var out TokenList
	err := c.call(ctx, http.MethodGet, "/v1/tokens", nil, &out, maxDocument)
	return out.Tokens, err
}

// RevokeToken has the daemon end a token.
func (c *Client) RevokeToken(ctx context.Context, name string) (*Token, error) {
	return ask[Token](ctx, c, http.MethodDelete, "/v1/tokens/"+url.PathEscape(name), nil)
}
