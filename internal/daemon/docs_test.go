package daemon

import (
	"os"
	"regexp"
	"testing"
)

const manual = "../../docs/reference.md"

// row is a line of the manual's table of warnings: code, severity, meaning, and
// what to do.
var row = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| (info|degraded|critical) \\| ([^|]+) \\| ([^|]+) \\|$")

// TestManualExplainsEveryWarning compares the manual's table with the kinds of
// warnings that forsd can raise, both ways.
func TestManualExplainsEveryWarning(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]string{} // severity by code
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		if _, twice := explained[m[1]]; twice {
			t.Errorf("%s explains %s twice", manual, m[1])
		}
		explained[m[1]] = m[2]
	}
	exists := map[string]bool{}
	for _, k := range kinds() {
		exists[k.Code] = true
		switch severity, ok := explained[k.Code]; {
		case !ok:
			t.Errorf("%s does not explain %s (%s)", manual, k.Code, k.Title)
		case severity != string(k.Severity):
			t.Errorf("%s calls %s %s, and forsd raises it as %s", manual, k.Code, severity, k.Severity)
		}
	}
	for code := range explained {
		if !exists[code] {
			t.Errorf("%s explains %s, which forsd never raises", manual, code)
		}
	}
}
