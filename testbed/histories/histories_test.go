package histories

import (
	"testing"

	"pgregory.net/rapid"
)

// TestCheck counts: each property is checked as often as its own call asks for.
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
