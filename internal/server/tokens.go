package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
)

// listTokens answers GET /v1/tokens.
func (s *service) listTokens(w http.ResponseWriter, r *http.Request) error {
	return WriteJSON(w, r, api.TokenList{Tokens: s.Access.Tokens.List(time.Now())})
}

// createToken answers POST /v1/tokens.
func (s *service) createToken(w http.ResponseWriter, r *http.Request) error {
	var q api.TokenRequest
	if err := ReadJSON(r, &q); err != nil {
		return err
	}
	life := api.DefaultTokenLife
	if q.ExpiresSeconds != 0 {
		if q.ExpiresSeconds < 0 || q.ExpiresSeconds > int64(access.MostLife/time.Second) {
			return api.BadRequest("expires_seconds %d: %v", q.ExpiresSeconds, access.ErrLife)
		}
		life = time.Duration(q.ExpiresSeconds) * time.Second
	}
	secret, made, err := s.Access.Tokens.Create(q.Name, q.Role, life, access.CallerOf(r.Context()).Name(), time.Now())
	if err != nil {
		return tokenError(q.Name, err)
	}
	s.told(r.Context(), "create token "+made.Name+" for the role "+made.Role.String()+" until "+made.Expires.Format(time.RFC3339), nil)
	return WriteJSON(w, r, api.NewToken{Token: made, Secret: secret})
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
