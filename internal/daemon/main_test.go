package daemon

import (
	"os"
	"testing"

	"github.com/forsd/forsd/internal/worker"
)

func TestMain(m *testing.M) {
	worker.Main(worker.Tasks())
	asForsd()
	asLoad()
	os.Exit(m.Run())
}
