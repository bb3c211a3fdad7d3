package tiers

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

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

// deaf is a client that takes nothing until it is told to.
type deaf struct {
	*httptest.ResponseRecorder
	asked, take chan struct{}
}

func (d *deaf) Write(p []byte) (int, error) {
	close(d.asked)
	<-d.take
	return d.ResponseRecorder.Write(p)
}

// TestDeafClient holds that others need not wait for a client that does not take its answer.
func TestDeafClient(t *testing.T) {
	l := worker.Defaults()
	l.Number, l.Brief = 1, 0
	none := func() (*topology.Fabric, *topology.FatTree, *lft.Tables) { return nil, nil, nil }
	h := Handlers(worker.NewPool(l), none)["POST /v1/optical/ocs"]
	const body = `{"demand":[[0,1],[1,0]],"switches":1,"delta":0.1}`
	d := &deaf{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		h.ServeHTTP(d, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body)))
		close(ended)
	}()
	<-d.asked
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	status, answer := ask(ctx, h, body)
	close(d.take)
	<-ended
	if status != http.StatusOK || answer != d.Body.String() {
		t.Errorf("%d: %s\nwant %s", status, answer, d.Body)
	}
}

// ok fails the test where there is an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
