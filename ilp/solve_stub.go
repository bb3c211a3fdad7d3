//go:build !lpsolve

package ilp

// Available tells whether the engine is built in.
func Available() bool { return false }

// solve is never reached: Route, Plan and Bound fail first.
func solve(*program, int) solution {
	return solution{outcome: failed, detail: ErrNotBuiltIn.Error()}
}
