package cli

import (
	"strings"
	"testing"
)

// TestReadAtMost reads files that are no longer than they may be.
func TestReadAtMost(t *testing.T) {
	if data, err := readAtMost(strings.NewReader("12345"), 5, "f"); err != nil || string(data) != "12345" {
		t.Errorf("5 bytes of 5: %q, %v", data, err)
	}
	if data, err := readAtMost(strings.NewReader("123456"), 5, "f"); err == nil || err.Error() != "read f: it has more than 5 bytes: is it the right file?" {
		t.Errorf("6 bytes of 5: %q, %v", data, err)
	}
}
