package state

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/server"
)

// TestShow has many subscribers in every state of the controller. It checks that most are not
// notified from the start of planning until OpenSM has its tables, and that all are notified
// after that.
func TestShow(t *testing.T) {
	for state := controller.Idle; state <= controller.Backoff; state++ {
		synctest.Test(t, func(t *testing.T) {
			b := New(nil, nil, published.NewEvents(64, time.Now()))
			h := server.Handler(server.Config{Events: b.Events}, false)
			ctx, leave := context.WithCancel(t.Context())
			var streams sync.WaitGroup
			var answers [100]httptest.ResponseRecorder
			for i := range answers {
				answers[i] = *httptest.NewRecorder()
				streams.Go(func() {
					h.ServeHTTP(&answers[i], httptest.NewRequestWithContext(ctx, http.MethodGet, "http://forsd/v1/events", nil))
				})
			}
			told := func() (n int) {
				time.Sleep(time.Second)
				synctest.Wait()
				for i := range answers {
					n += strings.Count(answers[i].Body.String(), "event: "+api.KindLink)
				}
				return n
			}
			told()
			b.Show(state, nil, false)
			b.Emit(api.KindLink, nil)
			want := len(answers)
			switch state {
			case controller.Before, controller.Publishing, controller.Writing, controller.Signalling, controller.Sweeping:
				want = 16
			}
			if n := told(); n != want {
				t.Errorf("%v: %d of %d have been told, want %d", state, n, len(answers), want)
			}
			b.Show(controller.Idle, nil, false)
			if n := told(); n != len(answers) {
				t.Errorf("after %v: %d of %d have been told", state, n, len(answers))
			}
			leave()
			streams.Wait()
		})
	}
}
