package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/forsd/forsd/api"
)

// fault returns an internal error.
func fault(format string, args ...any) error {
	return api.Errorf(api.CodeInternal, "this is a fault of forsplan: "+format, args...)
}

// readBody reads the body of a request.
func readBody(r *http.Request, most int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, most))
	if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
		return nil, api.Errorf(api.CodeTooLarge, "the request is longer than %d bytes", most)
	} else if err != nil {
		return nil, api.BadRequest("read request: %v", err)
	}
	return body, nil
}

// answer converts a function of a request to a handler.
func answer(f func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		write(w, v, err)
	})
}

// write sends a value as JSON, or an error. An error that is not the API's comes from a
// planner, and is about the request.
func write(w http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = api.Refused("planning did not end within %v: ask for less, or use a command of forsplan that works on files", planTime)
	}
	if err != nil {
		var e *api.Error
		if !errors.As(err, &e) {
			e = api.BadRequest("%v", err)
		}
		v, status = e, e.Status()
	}
	body, err := json.Marshal(v)
	if err != nil {
		body, status = []byte(err.Error()), http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // fails only if the client has disconnected
}
