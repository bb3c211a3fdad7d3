package tiers

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

func TestMain(m *testing.M) {
	tasks := Tasks()
	tasks["sleep"] = func(context.Context, *bufio.Reader) ([]byte, error) { select {} }
	worker.Main(tasks)
	os.Exit(m.Run())
}

// pool is that of the tests.
var pool = worker.NewPool(worker.Defaults())

// handler is an endpoint of a forsd that knows no fabric.
func handler(pattern string) http.Handler {
	return Handlers(pool, func() (*topology.Fabric, *topology.FatTree, *lft.Tables) { return nil, nil, nil })[pattern]
}

// ask posts a body to a handler and returns the answer's status and body.
func ask(ctx context.Context, h http.Handler, body string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// ok fails the test where there is an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
