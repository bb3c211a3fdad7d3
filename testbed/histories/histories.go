// Package histories says how many random histories a state machine is driven through.
package histories

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Promised is how many histories the invariants of docs/architecture.md are promised on.
const Promised = 100000

// Check holds a property on n random histories, or on as many as are promised where the
// environment has FORS_LONG. The flag -rapid.checks is stronger than both.
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
