//go:build !lpsolve

package ilp

import (
	"context"
	"errors"
	"testing"

	"github.com/forsd/forsd/fors"
)

func TestNotBuiltIn(t *testing.T) {
	ctx, tree := context.Background(), ft(2, 2, 2)
	if Available() {
		t.Error("available without lp_solve")
	}
	if _, err := Route(ctx, tree, [][]fors.Pair{{{Src: 0, Dst: 2}}}); !errors.Is(err, ErrNotBuiltIn) {
		t.Errorf("Route: %v", err)
	}
	if _, err := Plan(ctx, tree); !errors.Is(err, ErrNotBuiltIn) {
		t.Errorf("Plan: %v", err)
	}
}
