package replica

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/standby"
)

// TestOddAnswers refuses answers that no forsd gives.
func TestOddAnswers(t *testing.T) {
	for name, text := range map[string]string{
		"another service": `{}`,
		"endless":         `{"tag":"a","leads":true,"last":18446744073709551615,"whole":true}`,
		"epoch":           `{"tag":"a","leads":true,"last":5,"whole":true,"epoch":{"about":{"epoch":6}}}`,
		"job":             `{"tag":"a","leads":true,"last":5,"whole":true,"jobs":[{"about":{"id":6,"epoch":6}}]}`,
		"later job":       `{"tag":"a","leads":true,"last":5,"whole":true,"jobs":[{"about":{"id":5,"epoch":6}}]}`,
		"no state":        `{"tag":"a","leads":true,"last":5}`,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
		c, err := api.Dial(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := Ask(t.Context(), c, standby.Ask{}); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
		if r, err := Ask(t.Context(), c, standby.Ask{Have: "a"}); name == "no state" && (err != nil || r.Word().Last != 5 || !r.Word().Leads) {
			t.Errorf("what is new is asked for: %+v, %v", r, err)
		}
		c.Close()
		s.Close()
	}
}

// TestQuestions holds the two ends of the question together.
func TestQuestions(t *testing.T) {
	var got standby.Ask
	d := &Desk{State: func(_ context.Context, q standby.Ask) (*Replica, error) {
		got = q
		return &Replica{Tag: "new", Whole: true}, nil
	}}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = d.Answer(r) }))
	defer s.Close()
	c, err := api.Dial(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, q := range []standby.Ask{{}, {Have: "a b", Wait: 10 * time.Second}, {Brief: true, Wait: time.Second}, {Claim: 1<<64 - 1}} {
		if _, _ = Ask(t.Context(), c, q); got != q {
			t.Errorf("%+v is asked, and %+v understood", q, got)
		}
	}
	for _, bad := range []string{"wait=soon", "wait=-1", "wait=65536", "claim=-1", "claim=18446744073709551616"} {
		if _, err := d.Answer(httptest.NewRequest(http.MethodGet, "/?"+bad, nil)); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestWaits answers as soon as there is something new, and at the latest when the time
// that was asked for has passed.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tag := "old"
		d := &Desk{State: func(context.Context, standby.Ask) (*Replica, error) { return &Replica{Tag: tag}, nil }}
		for _, c := range []struct {
			wait    string
			happens time.Duration // when something does, and whether the bell rings
			rings   bool
			want    time.Duration
		}{
			{"10", time.Hour, false, 10 * time.Second},
			{"10", 2500 * time.Millisecond, true, 2500 * time.Millisecond},
			{"10", 2500 * time.Millisecond, false, 3 * time.Second},
			{"3600", 2 * time.Hour, false, time.Minute},
			{"0", time.Hour, false, 0},
		} {
			tag = "old"
			began := time.Now()
			timer := time.AfterFunc(c.happens, func() {
				tag = "new"
				if c.rings {
					d.Ring()
				}
			})
			out, err := d.Answer(httptest.NewRequest(http.MethodGet, "/?have=old&wait="+c.wait, nil))
			if took := time.Since(began); err != nil || took != c.want || out.(*Replica).Tag != tag {
				t.Errorf("wait=%s, news after %v: %v after %v, want it after %v", c.wait, c.happens, err, took, c.want)
			}
			timer.Stop()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.Answer(httptest.NewRequestWithContext(ctx, http.MethodGet, "/?have="+tag+"&wait=10", nil)); err == nil {
			t.Error("who asked has gone, and gets an answer")
		}
	})
}
