package photonic

import "context"

// Planning looks at its context deep within loops that have no errors of their own,
// and that are used for what cannot fail as well. So what finds the context ended
// panics with ended, and the function that was given the context recovers it.

// ended is why planning ends early.
type ended struct{ err error }

// until is an instance like in, planning for which ends with ctx.
func (in *Instance) until(ctx context.Context) *Instance {
	own := *in
	own.ctx = ctx
	return &own
}

// look ends planning where the instance's context has ended. Without instance or
// context it does nothing.
func (in *Instance) look() {
	if in == nil || in.ctx == nil {
		return
	}
	if err := context.Cause(in.ctx); err != nil {
		panic(ended{err})
	}
}

// recovered is deferred by functions that call until, with their error.
func recovered(err *error) {
	switch e := recover().(type) {
	case nil:
	case ended:
		*err = e.err
	default:
		panic(e)
	}
}
