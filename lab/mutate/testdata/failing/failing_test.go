package failing

import "testing"

func TestTwo(t *testing.T) {
	if Two() != 3 {
		t.Error("not three")
	}
}
