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
	"github.com/forsd/forsd/internal/state"
)

// TestOddAnswers checks that answers which a forsd never gives are refused.
func TestOddAnswers(t *testing.T) {
	for name, text := range map[string]string{
		"another service": `{}`,
		"endless":         `{"tag":"a","leads":true,"last":18446744073709551615,"whole":true}`,
		"epoch":           `{"tag":"a","leads":true,"last":5,"whole":true,"epoch":{"about":{"epoch":6}}}`,
		"job":             `{"tag":"a","leads":true,"last":5,"whole":true,"jobs":[{"about":{"id":6,"epoch":6}}]}`,
		"later job":       `{"tag":"a","leads":true,"last":5,"whole":true,"jobs":[{"about":{"id":5,"epoch":6}}]}`,
		"job's base plan": `{"tag":"a","leads":true,"last":5,"whole":true,"jobs":[{"about":{"id":5,"epoch":5,"base_epoch":6}}]}`,
		"clock":           `{"tag":"a","leads":true,"last":5,"whole":true,"clock":9223372036854775807}`,
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

// TestQuestions checks that the server understands the questions that Ask sends.
func TestQuestions(t *testing.T) {
	var got standby.Ask
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, _ = question(r) }))
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
		if _, err := (&Desk{}).Answer(httptest.NewRequest(http.MethodGet, "/?"+bad, nil)); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// shown returns a snapshot in which last is the highest number given.
func shown(leads bool, last uint64) *Snapshot {
	n := &Snapshot{word: standby.Word{Leads: leads, Numbers: standby.Numbers{Last: last}}, state: &state.State{}}
	n.tag = n.hash
	return n
}

// TestWaits checks that a question is answered as soon as there is news, and at the
// latest after the requested wait. Before the first snapshot, the answer waits for it.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := shown(true, 1).Replica(standby.Ask{}).Tag
		for _, c := range []struct {
			wait    string
			happens time.Duration // when the snapshot is shown
			what    *Snapshot
			want    time.Duration
		}{
			{"10", time.Hour, shown(true, 2), 10 * time.Second},
			{"10", 2500 * time.Millisecond, shown(true, 2), 2500 * time.Millisecond},
			{"10", 2500 * time.Millisecond, shown(false, 1), 2500 * time.Millisecond},
			{"10", 2500 * time.Millisecond, shown(true, 1), 10 * time.Second}, // no news
			{"3600", 2 * time.Hour, shown(true, 2), time.Minute},
			{"0", time.Hour, shown(true, 2), 0},
		} {
			d := &Desk{}
			d.Show(shown(true, 1))
			began := time.Now()
			timer := time.AfterFunc(c.happens, func() { d.Show(c.what) })
			out, err := d.Answer(httptest.NewRequest(http.MethodGet, "/?have="+old+"&wait="+c.wait, nil))
			if took := time.Since(began); err != nil || took != c.want {
				t.Errorf("wait=%s, news after %v: %v after %v, want it after %v", c.wait, c.happens, err, took, c.want)
			} else if news := out.(*Replica).Tag != old; news != (c.want == c.happens) {
				t.Errorf("wait=%s, news after %v: news %t", c.wait, c.happens, news)
			}
			timer.Stop()
		}
		d := &Desk{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.Answer(httptest.NewRequestWithContext(ctx, http.MethodGet, "/?wait=10", nil)); err == nil {
			t.Error("the asker has gone, and gets an answer")
		}
		time.AfterFunc(time.Second, func() { d.Show(shown(true, 1)) })
		if out, err := d.Answer(httptest.NewRequest(http.MethodGet, "/", nil)); err != nil || out.(*Replica).Last != 1 {
			t.Errorf("before anything is shown: %+v, %v", out, err)
		}
	})
}

// TestBegins checks the answers during an action. A daemon that begins to lead or to take
// over reports that immediately. A daemon that stops leading reports it only after the
// action.
func TestBegins(t *testing.T) {
	d := &Desk{}
	d.Begins(standby.Word{Leads: true})
	if now, _ := d.look(); now != nil {
		t.Error("there is a state before the first")
	}
	for _, c := range []struct {
		was, leads bool
		claim      uint64
		want       Replica
	}{
		{false, true, 0, Replica{Leads: true, Last: 7}},
		{false, false, 5, Replica{Claim: 5, Last: 7}},
		{true, false, 0, Replica{Leads: true, Last: 7}},
		{true, false, 5, Replica{Leads: true, Claim: 5, Last: 7}},
	} {
		d.Show(shown(c.was, 7))
		d.Begins(standby.Word{Leads: c.leads, Claim: c.claim})
		now, _ := d.look()
		if r := now.Replica(standby.Ask{Brief: true}); r.Leads != c.want.Leads || r.Claim != c.want.Claim || r.Last != c.want.Last {
			t.Errorf("leads %t, then %t with claim %d: %+v", c.was, c.leads, c.claim, r)
		}
	}
}
