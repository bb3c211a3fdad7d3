package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Error is why a request was not answered: its kind, which is a stable code, and a sentence.
type Error struct {
	Code string `json:"code"`
	Text string `json:"error"`
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Text }

// Errorf makes an Error of a code and a sentence.
func Errorf(code, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// The codes of errors.
const (
	CodeBadRequest       = "bad-request"
	CodeNotFound         = "not-found"
	CodeMethodNotAllowed = "method-not-allowed"
	CodeNotAcceptable    = "not-acceptable"
	CodeForbidden        = "forbidden"
	CodeUnauthorized     = "unauthorized"
	CodeTooLarge         = "too-large"
	CodeAmbiguous        = "ambiguous"
	CodeRefused          = "refused"
	CodeNoPlan           = "no-plan"
	CodeNoEpoch          = "no-epoch"
	CodeNoTopology       = "no-topology"
	CodeNotReady         = "not-ready"
	CodeStopping         = "stopping"
	CodeBusy             = "busy"
	CodeInternal         = "internal"
)

// Status returns the HTTP status of an error's code.
func (e *Error) Status() int {
	switch e.Code {
	case CodeBadRequest:
		return http.StatusBadRequest
	case CodeNotFound:
		return http.StatusNotFound
	case CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case CodeNotAcceptable:
		return http.StatusNotAcceptable
	case CodeForbidden:
		return http.StatusForbidden
	case CodeUnauthorized:
		return http.StatusUnauthorized
	case CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeAmbiguous, CodeRefused:
		return http.StatusConflict
	case CodeNoEpoch:
		return http.StatusGone
	case CodeNoPlan, CodeNoTopology, CodeNotReady, CodeStopping, CodeBusy:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Refused returns the error of a change that the fabric or the rules do not allow.
func Refused(format string, args ...any) *Error {
	return Errorf(CodeRefused, format, args...)
}

// BadRequest returns the error of a request that makes no sense.
func BadRequest(format string, args ...any) *Error {
	return Errorf(CodeBadRequest, format, args...)
}

// NotFound returns the error of a question about something that does not exist.
func NotFound(format string, args ...any) *Error {
	return Errorf(CodeNotFound, format, args...)
}

// NoJob returns the error of a question about a job that does not exist.
func NoJob(job string) *Error {
	if _, err := strconv.ParseUint(job, 10, 64); err == nil {
		return NotFound("there is no job %s: it was removed, or its lease has ended; forsctl job list lists those that are", job)
	}
	return NotFound("no job is called %.100q: it was removed, or its lease has ended; forsctl job list lists those that are", job)
}

// Busy returns the error of a request that asks for more than others leave.
func Busy(format string, args ...any) *Error {
	return Errorf(CodeBusy, format, args...)
}

// Decode reads a request: exactly one JSON value without unknown fields.
func Decode(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); errors.Is(err, io.EOF) {
		return BadRequest("the request has no body: want a JSON object")
	} else if err != nil {
		return BadRequest("read request: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return BadRequest("read request: something follows the JSON object")
	}
	return nil
}
