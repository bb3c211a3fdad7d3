package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/forsd/forsd/internal/access"
)

// TokenRequest asks for a token.
type TokenRequest struct {
	Name           string      `json:"name"`
	Role           access.Role `json:"role"`
	ExpiresSeconds int64       `json:"expires_seconds,omitempty"` // 0 for DefaultTokenLife
}

// NewToken is a token that was made. The secret is shown only this once.
type NewToken struct {
	access.Token
	Secret string `json:"secret"`
}

// TokenList is the answer to GET /v1/tokens: those that are valid, by name.
type TokenList struct {
	Tokens []access.Token `json:"tokens"`
}

// DefaultTokenLife is how long a token is valid that says nothing of it.
const DefaultTokenLife = 90 * 24 * time.Hour

// listTokens answers GET /v1/tokens.
func (s *service) listTokens(w http.ResponseWriter, r *http.Request) error {
	return WriteJSON(w, r, TokenList{s.Access.Tokens.List(time.Now())})
}

// createToken answers POST /v1/tokens.
func (s *service) createToken(w http.ResponseWriter, r *http.Request) error {
	var q TokenRequest
	if err := ReadJSON(r, &q); err != nil {
		return err
	}
	life := DefaultTokenLife
	if q.ExpiresSeconds != 0 {
		if q.ExpiresSeconds < 0 || q.ExpiresSeconds > int64(access.MostLife/time.Second) {
			return BadRequest("expires_seconds %d: %v", q.ExpiresSeconds, access.ErrLife)
		}
		life = time.Duration(q.ExpiresSeconds) * time.Second
	}
	secret, made, err := s.Access.Tokens.Create(q.Name, q.Role, life, callerOf(r.Context()).Name(), time.Now())
	if err != nil {
		return tokenError(q.Name, err)
	}
	s.told(r.Context(), "create token "+made.Name+" for the role "+made.Role.String()+" until "+made.Expires.Format(time.RFC3339), nil)
	return WriteJSON(w, r, NewToken{made, secret})
}

// revokeToken answers DELETE /v1/tokens/{token}.
func (s *service) revokeToken(w http.ResponseWriter, r *http.Request) error {
	was, err := s.Access.Tokens.Revoke(r.PathValue("token"), time.Now())
	if err != nil {
		return tokenError(r.PathValue("token"), err)
	}
	s.told(r.Context(), "revoke token "+was.Name, nil)
	return WriteJSON(w, r, was)
}

// told records an order in words of its own.
func (s *service) told(ctx context.Context, what string, err error) {
	if s.Ordered != nil {
		s.Ordered(ctx, what, "done", err)
		Told(ctx)
	}
}

// tokenError is why there is no such token, as the API has it.
func tokenError(name string, err error) error {
	switch {
	case errors.Is(err, access.ErrUnknown):
		return Errorf(http.StatusNotFound, CodeNotFound, "token %.80q: %v", name, err)
	case errors.Is(err, access.ErrTaken), errors.Is(err, access.ErrMany):
		return Refused("token %.80q: %v", name, err)
	case errors.Is(err, access.ErrName), errors.Is(err, access.ErrRole), errors.Is(err, access.ErrLife):
		return BadRequest("token %.80q: %v", name, err)
	}
	return err
}

// CreateToken has the daemon make a token.
func (c *Client) CreateToken(ctx context.Context, q TokenRequest) (*NewToken, error) {
	return ask[NewToken](ctx, c, http.MethodPost, "/v1/tokens", q)
}

// Tokens asks for the tokens that are valid, by name.
func (c *Client) Tokens(ctx context.Context) ([]access.Token, error) {
	out, err := ask[TokenList](ctx, c, http.MethodGet, "/v1/tokens", nil)
	if err != nil {
		return nil, err
	}
	return out.Tokens, nil
}

// RevokeToken has the daemon end a token.
func (c *Client) RevokeToken(ctx context.Context, name string) (*access.Token, error) {
	return ask[access.Token](ctx, c, http.MethodDelete, "/v1/tokens/"+url.PathEscape(name), nil)
}
