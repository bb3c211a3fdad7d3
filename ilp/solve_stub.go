//go:build !lpsolve

package ilp

import "context"

// Available tells whether the engine is built in.
func Available() bool { return false }

// solve is never reached: Route, Plan and Bound fail first.
func solve(context.Context, *program) solution {
	return solution{outcome: failed, detail: ErrNotBuiltIn.Error()}
}
