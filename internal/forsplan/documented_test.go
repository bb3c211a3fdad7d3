package forsplan

import (
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/programs"
)

func TestDocumentedCommands(t *testing.T) {
	programs.Documented(t, "../..", Command, 30)
	for _, wrong := range []string{"nonsense", "gpu schedule --wild 3", "ocs session drop", "liquid teams more"} {
		if programs.Parses(Command(), strings.Fields(wrong), true) == nil {
			t.Errorf("forsplan %s is found to be right", wrong)
		}
	}
}
