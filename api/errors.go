package api

import (
	"fmt"
	"net/http"
	"strconv"
)

// Error is an answer that is none: its status, a stable code and a sentence.
type Error struct {
	Status int    `json:"-"`
	Code   string `json:"code"`
	Text   string `json:"error"`
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Text }

// Errorf makes an Error of a status, a code and a sentence.
func Errorf(status int, code, format string, args ...any) *Error {
	return &Error{status, code, fmt.Sprintf(format, args...)}
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

// Refused returns the error of a change that the fabric or the rules do not allow.
func Refused(format string, args ...any) *Error {
	return Errorf(http.StatusConflict, CodeRefused, format, args...)
}

// BadRequest returns the error of a request that makes no sense.
func BadRequest(format string, args ...any) *Error {
	return Errorf(http.StatusBadRequest, CodeBadRequest, format, args...)
}

// NoJob returns the error of a question about a job that does not exist.
func NoJob(job string) *Error {
	if _, err := strconv.ParseUint(job, 10, 64); err == nil {
		return Errorf(http.StatusNotFound, CodeNotFound, "there is no job %s: it was removed, or its lease has ended; forsctl job list lists those that are", job)
	}
	return Errorf(http.StatusNotFound, CodeNotFound, "no job is called %.100q: it was removed, or its lease has ended; forsctl job list lists those that are", job)
}

// Busy returns the error of a request that asks for more than others leave.
func Busy(format string, args ...any) *Error {
	return Errorf(http.StatusServiceUnavailable, CodeBusy, format, args...)
}
