package cli

import (
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/programs"
)

func TestDocumentedCommands(t *testing.T) {
	programs.Documented(t, "../..", Command, 30)
	for _, wrong := range []string{"nonsense", "plan --wild 3", "baseline drop", "whatif --done", "rollback", "status more"} {
		if programs.Parses(Command(), strings.Fields(wrong), true) == nil {
			t.Errorf("forsctl %s is found to be right", wrong)
		}
	}
}
