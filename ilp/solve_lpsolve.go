//go:build lpsolve

package ilp

/*
#cgo LDFLAGS: -llpsolve55
#include "lp_lib.h"

// ended tells lp_solve between its steps to stop if the context has ended.
static int __WINAPI ended(lprec *lp, void *flag) {
	return __atomic_load_n((int *)flag, __ATOMIC_RELAXED);
}

static void ask(void *lp, int *flag) { put_abortfunc(lp, ended, flag); }
static void end(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELAXED); }
*/
import "C"

import (
	"context"
	"io"
	"os"
	"reflect"
	"runtime"

	"github.com/draffensperger/golp"
)

// Available reports whether lp_solve is available.
func Available() bool { return true }

// Serve reads a program, runs lp_solve on it, and writes the solution. The process exits at
// the end of its input, since its caller is then gone.
func Serve(in io.Reader, out io.Writer) error {
	p, err := readProgram(in)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1)
	}()
	return writeSolution(out, solve(context.Background(), p))
}

// solve runs lp_solve on a program; between its steps lp_solve asks whether ctx has ended.
// golp has no call for that, so solve extracts the problem's C structure.
func solve(ctx context.Context, p *program) solution {
	lp := state(p)
	flag := new(C.int)
	var pinned runtime.Pinner
	pinned.Pin(flag)
	defer pinned.Unpin()
	C.ask(reflect.ValueOf(lp).Elem().FieldByName("ptr").UnsafePointer(), flag)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { C.end(flag); close(stopped) })
	defer func() {
		if !stop() {
			<-stopped
		}
	}()
	switch result := lp.Solve(); result {
	case golp.OPTIMAL, golp.SUBOPTIMAL:
	case golp.INFEASIBLE:
		return solution{outcome: infeasible}
	case golp.USERABORT:
		return solution{outcome: outOfTime}
	default:
		return solution{outcome: failed, detail: result.String()}
	}
	return solution{outcome: solved, values: lp.Variables()}
}

// state hands a program to lp_solve.
func state(p *program) *golp.LP {
	lp := golp.NewLP(0, len(p.upper))
	lp.SetVerboseLevel(golp.CRITICAL)
	for _, r := range p.rows {
		entries := make([]golp.Entry, len(r.cols))
		for i, col := range r.cols {
			entries[i] = golp.Entry{Col: col, Val: 1}
			if r.coef != nil {
				entries[i].Val = r.coef[i]
			}
		}
		// golp returns no error from here.
		_ = lp.AddConstraintSparse(entries, constraint(r.sense), r.rhs)
	}
	lp.SetAddRowMode(false)
	for col, upper := range p.upper {
		lp.SetBounds(col, 0, upper)
		lp.SetInt(col, p.integer)
	}
	return lp
}

func constraint(s sense) golp.ConstraintType {
	switch s {
	case atMost:
		return golp.LE
	case atLeast:
		return golp.GE
	}
	return golp.EQ
}
