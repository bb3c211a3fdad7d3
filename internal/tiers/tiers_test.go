package tiers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// ask posts a body to a handler and returns the answer's status and body.
func ask(ctx context.Context, h http.Handler, body string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// ok fails the test where there is an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
