package access

import (
	"context"

	"github.com/forsd/forsd/api"
)

// Request is what is known of a request besides its content.
type Request struct {
	Caller *api.Caller // nil if not known
	Epoch  uint64      // in force when an order came; 0 if there was none
	Told   bool        // the order has been logged and published, and is not once more
}

type requestKey struct{}

// With returns a context that carries r.
func With(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// RequestOf returns what a context carries, or an empty Request.
func RequestOf(ctx context.Context) *Request {
	if r, is := ctx.Value(requestKey{}).(*Request); is {
		return r
	}
	return &Request{}
}

// CallerOf returns who sent the request of a context, or nil.
func CallerOf(ctx context.Context) *api.Caller { return RequestOf(ctx).Caller }
