package published

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
)

// started is when the forsd of these tests was started.
var started = time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC)

// publish makes a plan of two servers that send to each other.
func publish(t testing.TB, epoch uint64) *Plan {
	t.Helper()
	data, err := phasetable.Encode(&phasetable.Table{Epoch: epoch, Phases: 1, Lanes: 1, To: []int32{1, 0}, Lane: []int16{-1, -1}, DLID: []ib.LID{2, 1},
		Servers: []phasetable.ServerEntry{{GUID: 1, LID: 1, Name: "one"}, {GUID: 2, LID: 2, Name: "two"}}})
	if err != nil {
		t.Fatal(err)
	}
	view, err := phasetable.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(view, json.RawMessage(`{"version":1}`), started)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewPlanRefuses(t *testing.T) {
	p := publish(t, 1)
	for _, plan := range []string{"", "null", "[]", `{"a":`, `{} {}`} {
		if _, err := NewPlan(p.Table, json.RawMessage(plan), started); err == nil {
			t.Errorf("plan.json %q is accepted", plan)
		}
	}
	q, err := NewPlan(p.Table, json.RawMessage("{}"), started)
	if err != nil || string(q.document) != `{"epoch":1,"published_at":"2026-07-01T08:00:00Z"}`+"\n" {
		t.Errorf("empty plan.json: %s, error %v", q.document, err)
	}
}

// TestFormerText holds that the text of a plan that is no longer in force is one for all who are
// sent it, is not kept beyond that, and can still be had.
func TestFormerText(t *testing.T) {
	plans, former := &Plans{}, publish(t, 1)
	plans.Publish(former)
	var want bytes.Buffer
	if err := phasetable.WriteCSV(&want, former.Table.Table()); err != nil {
		t.Fatal(err)
	}
	asked := func() {
		w := httptest.NewRecorder()
		if err := former.SendCSV(w); err != nil || w.Body.String() != want.String() || w.Header().Get("Content-Length") != strconv.Itoa(want.Len()) {
			t.Errorf("%d bytes, said to be %s, error %v; want %d", w.Body.Len(), w.Header().Get("Content-Length"), err, want.Len())
		}
	}
	asked()
	first := former.csv.text.Load()
	if first == nil {
		t.Fatal("the text of the plan in force is not kept")
	}
	slow := &stalled{ResponseWriter: httptest.NewRecorder(), writes: make(chan struct{})}
	done := make(chan error)
	go func() { done <- former.SendCSV(slow) }()
	slow.writes <- struct{}{}
	plans.Publish(publish(t, 2))
	if asked(); former.csv.text.Load() != first {
		t.Error("another text is made while a client is still sent the first")
	}
	close(slow.writes)
	if err := <-done; err != nil || former.csv.text.Load() != nil {
		t.Errorf("the text is kept when all have it: %t; error %v", former.csv.text.Load() != nil, err)
	}
	if asked(); former.csv.text.Load() != nil {
		t.Error("the text of a former plan is kept")
	}
	again := publish(t, 1)
	if plans.Publish(again); again.csv != former.csv || again.csv.past.Load() {
		t.Error("a plan that is in force again has another text")
	}
}

// stalled is an answer that is not taken: each part waits for a word, and one more.
type stalled struct {
	http.ResponseWriter
	writes chan struct{}
}

func (s *stalled) Write(p []byte) (int, error) {
	<-s.writes
	<-s.writes
	return s.ResponseWriter.Write(p)
}

// TestText writes texts of all lengths around the size of a part, in pieces of any size.
func TestText(t *testing.T) {
	for _, length := range []int{0, 1, partSize - 1, partSize, partSize + 1, 3*partSize + 5} {
		for _, piece := range []int{1 << 10, partSize, 1 << 20} {
			want := bytes.Repeat([]byte("0123456789\n"), length/11+1)[:length]
			text := &Text{}
			for at := 0; at < length; at += piece {
				if n, err := text.Write(want[at:min(at+piece, length)]); err != nil || n != min(piece, length-at) {
					t.Fatalf("writes %d bytes, error %v", n, err)
				}
			}
			w := httptest.NewRecorder()
			if text.Send(w); !bytes.Equal(w.Body.Bytes(), want) || w.Header().Get("Content-Length") != fmt.Sprint(length) {
				t.Errorf("%d bytes in pieces of %d come as %d", length, piece, w.Body.Len())
			}
		}
	}
}

// TestSlowText makes a text for longer than a server gives a client to take an answer: the
// client's time begins when the text is ready.
func TestSlowText(t *testing.T) {
	text := &Text{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(50 * time.Millisecond)
		_, _ = text.Write(bytes.Repeat([]byte("x"), 3*partSize))
		text.Send(w)
	}))
	s.Config.WriteTimeout = time.Millisecond
	s.Start()
	defer s.Close()
	answer, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || len(body) != 3*partSize {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}
