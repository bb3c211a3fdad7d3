// Package histories determines how many random histories a state machine is driven through.
package histories

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Promised is the number of histories for which docs/architecture.md promises its invariants.
const Promised = 100000

// Check checks a property on n random histories, or on Promised ones if FORS_LONG is set.
// The flag -rapid.checks overrides both.
func Check(t *testing.T, n int, property func(*rapid.T)) {
	t.Helper()
	if os.Getenv("FORS_LONG") != "" {
		n = Promised
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(strconv.Itoa(n)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
	}
	rapid.Check(t, property)
}
