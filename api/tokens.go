package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

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
