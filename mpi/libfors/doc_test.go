package libfors

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/programs"
)

// documentedVerbs is the C function in docs/mpi.md that uses the library.
func documentedVerbs(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/mpi.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```c\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok || !strings.Contains(text, "int to_rtr(") {
		t.Fatal("docs/mpi.md lacks to_rtr")
	}
	return text
}

// TestDocumentedProgram compiles the example to which the document links and compares its
// output for one host with Go's view of the table.
func TestDocumentedProgram(t *testing.T) {
	const source = "../../examples/phases.c"
	b, err := sanitized()
	if err != nil {
		t.Fatal(err)
	}
	bin := compile(t, append(sanitizers, source, b.library())...)
	data, view := encode(t, plan(t, 4, 3, 1, 2))
	const server = 5
	want := fmt.Sprintf("epoch 42, %d phases\n", view.Phases())
	for p := range 3 {
		e := view.Row(server).At(p)
		want += fmt.Sprintf("server %d phase %d: to %d at LID %d over lane %d, from %d\n", server, p, e.SendTo, e.DLID, e.Lane, e.RecvFrom)
	}
	cmd := exec.Command(bin, view.Server(server).Name)
	cmd.Env = append(os.Environ(), "FORSD_TABLE="+write(t, data))
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("error %v, output:\n%swant:\n%s", err, out, want)
	}
}

// TestDocumentedVerbs connects every pair of a plan as the document does, with a verbs library
// that records the address vectors. It checks each pair as a reliable connection does: a
// packet's source LID must be the LID to which the receiver sends.
func TestDocumentedVerbs(t *testing.T) {
	text := documentedVerbs(t)
	source := filepath.Join(t.TempDir(), "rtr.c")
	program := "#include <fors.h>\n#include \"testdata/verbs.h\"\n" + text + "#include \"testdata/connect.c\"\n"
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := sanitized()
	if err != nil {
		t.Fatal(err)
	}
	bin := compile(t, append(sanitizers, source, b.library())...)
	for dead := range 3 {
		data, view := encode(t, plan(t, 6, 6, dead, 3))
		n := view.Servers()
		if got, want := programs.Output(t, bin, write(t, data)), fmt.Sprintf("%d connections\n", n*(n-1)); got != want {
			t.Errorf("%d dead cables: %swant %s", dead, got, want)
		}
	}
}
