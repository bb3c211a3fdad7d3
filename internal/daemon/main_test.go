package daemon

import (
	"os"
	"testing"

	"github.com/forsd/forsd/internal/worker"
)

func TestMain(m *testing.M) {
	worker.Main(tasks())
	asForsd()
	os.Exit(m.Run())
}
