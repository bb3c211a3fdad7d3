package histories

import (
	"testing"

	"pgregory.net/rapid"
)

// TestCheck counts: a property is tried as often as it says, and the next one as often as
// that says.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		long string
		n    int
		want int
	}{{"", 7, 7}, {"1", 7, Promised}, {"", 205, 205}} {
		t.Setenv("FORS_LONG", c.long)
		tried := 0
		t.Run("", func(t *testing.T) { Check(t, c.n, func(*rapid.T) { tried++ }) })
		if testing.Short() {
			c.want /= 5 // rapid's own rule
		}
		if tried != c.want {
			t.Errorf("%+v: tried %d times", c, tried)
		}
	}
}
