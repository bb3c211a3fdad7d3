package plugin

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/opensm"
)

const document = "../../docs/opensm-plugin.md"

// TestDocument compares the document with the code at both ends: the messages and
// their numbers, and the defaults of the options.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]kind{}
	for _, m := range regexp.MustCompile(`(?m)^\| 0x([0-9A-F]{2}) \| (\w+) \|`).FindAllSubmatch(text, -1) {
		n, err := strconv.ParseUint(string(m[1]), 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		told[string(m[2])] = kind(n)
	}
	ours := map[string]kind{"hello": kindHello, "state": kindState, "sweep": kindSweep, "fabric": kindFabric, "discovered": kindDiscovered, "trap": kindTrap,
		"request": kindRequest, "outcome": kindOutcome, "routed": kindRouted, "up": kindUp,
		"welcome": kindWelcome, "tables": kindTables, "none": kindNone, "resweep": kindResweep}
	if d := cmp.Diff(told, ours); d != "" {
		t.Errorf("messages (-%s +wire.go):\n%s", document, d)
	}
	if d := cmp.Diff(told, enumerated(t)); d != "" {
		t.Errorf("messages (-%s +internal.h):\n%s", document, d)
	}

	source, err := os.ReadFile("src/plugin.c")
	if err != nil {
		t.Fatal(err)
	}
	for option, pattern := range map[string]string{"socket": `#define DEFAULT_SOCKET "(.*)"`, "user": `#define DEFAULT_USER "(.*)"`, "deadline": `DEFAULT_DEADLINE = (\d+)`,
		"settle": `DEFAULT_SETTLE = (\d+)`} {
		m := regexp.MustCompile(pattern).FindSubmatch(source)
		row := regexp.MustCompile("(?m)^\\| `" + option + "` \\| `?([^`|]*?)`? \\|").FindSubmatch(text)
		if m == nil || row == nil || string(m[1]) != string(row[1]) {
			t.Errorf("%s: %q in plugin.c, %q in %s", option, m, row, document)
		}
		if option == "socket" && string(m[1]) != opensm.DefaultSocket {
			t.Errorf("the plugin connects to %s, forsd listens on %s", m[1], opensm.DefaultSocket)
		}
	}
}

// enumerated are the messages that internal.h has.
func enumerated(t *testing.T) map[string]kind {
	t.Helper()
	header, err := os.ReadFile("src/internal.h")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)enum message \{(.*?)\}`).FindSubmatch(header)
	if m == nil {
		t.Fatal("internal.h has no enum message")
	}
	found := map[string]kind{}
	next := kind(0)
	for word := range strings.SplitSeq(string(m[1]), ",") {
		name, value, set := strings.Cut(strings.TrimSpace(word), " = ")
		if set {
			n, err := strconv.ParseUint(value, 0, 8)
			if err != nil {
				t.Fatal(err)
			}
			next = kind(n)
		}
		found[strings.ToLower(name)] = next
		next++
	}
	return found
}
