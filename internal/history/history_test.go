package history

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
)

func ok(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// site is a running history, with the events that it keeps.
type site struct {
	*History
	events *published.Events
	health *health.Tracker
	end    func()
}

// begin starts a run of forsd with a history. A second run starts a second later.
func begin(t testing.TB, s Settings, second int) *site {
	t.Helper()
	x := &site{events: published.NewEvents(8, time.Unix(int64(second), 0)), health: health.NewTracker(Kinds(), nil)}
	x.History = New(s, x.events.Run(), zap.NewNop(), x.health)
	x.events.KeepIn(x.History)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		if err := x.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	x.end = sync.OnceFunc(func() { cancel(); work.Wait() })
	t.Cleanup(x.end)
	return x
}

// settings returns settings that keep everything a test stores.
func settings(t testing.TB) Settings {
	return Settings{Path: filepath.Join(t.TempDir(), "history.db"), MaxAge: time.Hour, MaxBytes: 1 << 30}
}

// say publishes an event.
func (x *site) say(t testing.TB, kind string, data any) {
	t.Helper()
	ok(t, x.events.Publish(kind, data))
}

// link publishes that a cable of a leaf went down.
func (x *site) link(t testing.TB, leaf, port int) {
	t.Helper()
	x.say(t, api.KindLink, map[string]any{"kind": "cable-down", "text": fmt.Sprintf("Leaf%03d port %d – Spine%03d port %d went down", leaf, port, port, leaf),
		"at": map[string]any{"node": fmt.Sprintf("0x%x", 0x200000+leaf), "port": port}})
}

// ask repeats a query until it returns the wanted number of entries.
func (x *site) ask(t testing.TB, q api.HistoryQuery, want int) *api.HistoryPage {
	t.Helper()
	var page *api.HistoryPage
	for range 500 {
		var err error
		if page, err = x.History.History(t.Context(), q); err == nil && len(page.Entries) >= want {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if page == nil || len(page.Entries) != want {
		t.Fatalf("%+v finds %+v, want %d entries", q, page, want)
	}
	return page
}

// texts returns the data of entries.
func texts(page *api.HistoryPage) string {
	var out []string
	for _, e := range page.Entries {
		var c struct{ Text, What, Code string }
		_ = json.Unmarshal(e.Data, &c) // other data appear as empty texts
		out = append(out, c.Text+c.What+c.Code)
	}
	return strings.Join(out, "; ")
}

func TestFilters(t *testing.T) {
	x := begin(t, settings(t), 1)
	x.link(t, 7, 31)
	x.link(t, 8, 31)
	x.say(t, api.KindWarning, map[string]any{"code": "cable-down", "text": "the cable Leaf007 port 31 – Spine031 port 7 is down; the cable Leaf008 port 31 – Spine031 port 8 is down", "raised": true})
	x.say(t, api.KindOrder, api.Order{What: "reroute", By: &api.Caller{User: "anna"}})
	x.say(t, api.KindOrder, api.Order{What: "rollback to epoch 4", By: &api.Caller{User: "root"}})
	x.say(t, api.KindWarning, map[string]any{"code": "cable-down", "raised": false})
	all := x.ask(t, api.HistoryQuery{}, 6)
	for name, c := range map[string]struct {
		q    api.HistoryQuery
		want int
	}{
		"kind":         {api.HistoryQuery{Kinds: []string{"order"}}, 2},
		"kinds":        {api.HistoryQuery{Kinds: []string{"order", "link"}}, 4},
		"no kind":      {api.HistoryQuery{Kinds: []string{"nonsense"}}, 0},
		"cable":        {api.HistoryQuery{About: "leaf007/31"}, 2},
		"other end":    {api.HistoryQuery{About: "Spine031/8"}, 2},
		"node":         {api.HistoryQuery{About: "Spine031"}, 3},
		"GUID":         {api.HistoryQuery{About: "0x0000000000200007"}, 1},
		"code":         {api.HistoryQuery{About: "cable-down"}, 2},
		"person":       {api.HistoryQuery{By: "anna"}, 1},
		"nobody":       {api.HistoryQuery{By: "eve"}, 0},
		"person+kind":  {api.HistoryQuery{By: "anna", Kinds: []string{"link"}}, 0},
		"both":         {api.HistoryQuery{By: "anna", About: "Leaf007"}, 0},
		"since":        {api.HistoryQuery{Since: all.Entries[2].At}, 3},
		"until":        {api.HistoryQuery{Until: all.Entries[2].At}, 3},
		"from, oldest": {api.HistoryQuery{Since: all.Entries[2].At, Oldest: true}, 3},
		"to, oldest":   {api.HistoryQuery{Until: all.Entries[2].At, Oldest: true}, 3},
		"limit":        {api.HistoryQuery{Limit: 2}, 2},
	} {
		page, err := x.History.History(t.Context(), c.q)
		ok(t, err)
		if len(page.Entries) != c.want {
			t.Errorf("%s: %d entries, want %d: %s", name, len(page.Entries), c.want, texts(page))
		}
	}
	for _, e := range all.Entries {
		if e.Kind == api.KindWarning && strings.Contains(string(e.Data), "true") != !e.Ended.IsZero() {
			t.Errorf("the warning %s has ended at %v", e.Data, e.Ended)
		}
	}
	if _, err := x.History.History(t.Context(), api.HistoryQuery{Cursor: "x"}); err == nil {
		t.Error("a cursor that is none is taken")
	}
}

// TestPages reads all entries page by page, in both orders.
func TestPages(t *testing.T) {
	x := begin(t, settings(t), 1)
	const all = 57
	for i := range all {
		if i%3 == 0 {
			x.say(t, api.KindOrder, api.Order{What: fmt.Sprint("order ", i)})
		} else {
			x.link(t, i, 1)
		}
	}
	x.ask(t, api.HistoryQuery{Limit: 100}, all)
	for _, oldest := range []bool{false, true} {
		var ids []string
		q := api.HistoryQuery{Limit: 5, Oldest: oldest}
		for {
			page, err := x.History.History(t.Context(), q)
			ok(t, err)
			for _, e := range page.Entries {
				ids = append(ids, e.ID)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		if len(ids) != all {
			t.Fatalf("%d entries", len(ids))
		}
		for i, id := range ids {
			n := i + 1
			if !oldest {
				n = all - i
			}
			if id != fmt.Sprintf("%s-%d", x.events.Run(), n) {
				t.Fatalf("entry %d is %s", i, id)
			}
		}
	}
}

// TestResume resumes after events of an earlier run, and after events of this run that are no
// longer in the ring.
func TestResume(t *testing.T) {
	s := settings(t)
	one := begin(t, s, 1)
	for i := range 300 {
		one.link(t, i, 1)
	}
	one.ask(t, api.HistoryQuery{Limit: 1000}, 300)
	one.end()
	two := begin(t, s, 2)
	for i := range 20 {
		two.link(t, 1000+i, 1)
	}
	two.ask(t, api.HistoryQuery{Limit: 1000}, 320)
	follow := func(id string) (kinds map[string]int, last string) {
		kinds = map[string]int{}
		for {
			events, found := two.After(t.Context(), id, 7)
			if !found {
				kinds["unknown"]++
				return kinds, id
			}
			if len(events) == 0 {
				return kinds, id
			}
			for _, e := range events {
				kinds[e.Kind]++
			}
			id = events[len(events)-1].ID
		}
	}
	end := two.events.Run() + "-20"
	for id, want := range map[string]int{one.events.Run() + "-0": 320, one.events.Run() + "-299": 21, one.events.Run() + "-300": 20, two.events.Run() + "-5": 15, end: 0} {
		if kinds, last := follow(id); kinds[api.KindLink] != want || len(kinds) > 1 || last != end {
			t.Errorf("after %s: %v up to %s, want %d up to %s", id, kinds, last, want, end)
		}
	}
	for _, id := range []string{"zzz-1", "zzz", "", one.events.Run() + "-301", one.events.Run() + "-x"} {
		if kinds, _ := follow(id); kinds["unknown"] != 1 {
			t.Errorf("after %q: %v", id, kinds)
		}
	}
	// A run that was killed may have lost the last events it stored.
	db, err := open(s, "killed")
	ok(t, err, db.insert([]noted{{api.Event{ID: "killed-1", Kind: api.KindLink, Data: []byte(`{}`)}, time.Now()}}))
	db.close()
	two.end()
	three := begin(t, s, 3)
	three.link(t, 1, 1)
	three.ask(t, api.HistoryQuery{Limit: 1000}, 322)
	two = three
	if kinds, last := follow("killed-1"); kinds[api.KindLink] != 1 || kinds[api.KindMissed] != 1 || last != three.events.Run()+"-1" {
		t.Errorf("after a run that was killed: %v up to %s", kinds, last)
	}
}

// TestNoteCosts checks that queueing an event allocates no memory, even if the queue is full.
// The path from a trap to a plan has no other part of the history.
func TestNoteCosts(t *testing.T) {
	h := New(settings(t), "x", zap.NewNop(), nil)
	e := api.Event{ID: "x-1", Kind: api.KindLink, Data: json.RawMessage(`{}`)}
	at := time.Now()
	if n := testing.AllocsPerRun(2*queueLength, func() { h.Note(e, at) }); n != 0 || h.Lost() == 0 {
		t.Errorf("%v allocations for an event, %d were lost", n, h.Lost())
	}
}

// BenchmarkNote measures the history's share, per event, of the time from a trap to a plan.
func BenchmarkNote(b *testing.B) {
	h := New(settings(b), "x", zap.NewNop(), nil)
	e := api.Event{ID: "x-1", Kind: api.KindLink, Data: json.RawMessage(`{}`)}
	for b.Loop() {
		h.Note(e, time.Now())
		<-h.queue
	}
}

// TestNobodyWaits records events while they are not being stored.
func TestNobodyWaits(t *testing.T) {
	x := New(settings(t), "x", zap.NewNop(), health.NewTracker(Kinds(), nil))
	for range queueLength + 100 {
		x.Note(api.Event{ID: "x-1"}, time.Now())
	}
	if x.Lost() != 100 {
		t.Errorf("%d are lost, want 100", x.Lost())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if page, err := x.History(ctx, api.HistoryQuery{}); err == nil {
		t.Errorf("a history that was never opened answers %v", page)
	}
}

// TestSizeIsBounded stores more than the limit.
func TestSizeIsBounded(t *testing.T) {
	s := settings(t)
	s.MaxBytes = 1 << 20
	db, err := open(s, "x")
	ok(t, err)
	defer db.close()
	var trim trimmer
	h := &History{Settings: s, run: "x", log: zap.NewNop(), health: health.NewTracker(Kinds(), nil)}
	h.db.Store(db)
	n := 0
	for range 60 {
		var batch []noted
		for range mostInOne {
			n++
			batch = append(batch, noted{api.Event{ID: fmt.Sprint("x-", n), Kind: api.KindLink, Data: fmt.Appendf(nil, `{"text":"Leaf%03d port %d – Spine001 port 2 went down"}`, n%40, n%30)}, time.Now()})
		}
		if err := h.keep(batch); err != nil {
			t.Fatalf("after %d: %v", n, err)
		}
		if size := h.Bytes(); size > s.MaxBytes {
			t.Fatalf("%d bytes after %d entries, and at most %d", size, n, s.MaxBytes)
		}
	}
	page, err := db.page(t.Context(), api.HistoryQuery{Limit: 1})
	ok(t, err)
	if page.Entries[0].ID != fmt.Sprint("x-", n) {
		t.Errorf("the newest is %s, and not %d", page.Entries[0].ID, n)
	}
	var entries, orphans int
	ok(t, db.write.QueryRow("SELECT count(*) FROM entries").Scan(&entries), db.write.QueryRow("SELECT count(*) FROM subjects WHERE entry < (SELECT min(id) FROM entries)").Scan(&orphans))
	if entries < 1000 || entries == n || orphans != 0 {
		t.Errorf("%d of %d entries are kept, and %d subjects of others", entries, n, orphans)
	}
	// Entries that are too old are removed.
	trim = trimmer{}
	ok(t, trim.trim(db, Settings{MaxAge: time.Nanosecond, MaxBytes: 1 << 30}, time.Now().Add(time.Second), false), db.write.QueryRow("SELECT count(*) FROM entries").Scan(&entries))
	if entries != 0 {
		t.Errorf("%d old entries stay", entries)
	}
	ok(t, db.insert([]noted{{api.Event{ID: fmt.Sprint("x-", n+1), Kind: api.KindLink, Data: []byte(`{}`)}, time.Now()}}))
}

// TestDamage damages the database in several ways, while it is closed and while it is open.
func TestDamage(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"nothing in it": func(p string) error { return os.Truncate(p, 0) },
		"cut":           func(p string) error { return os.Truncate(p, 5000) },
		"another file":  func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("no database ", 1000)), 0o644) },
		"pages of junk": func(p string) error {
			f, err := os.OpenFile(p, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt([]byte(strings.Repeat("\xff\x00junk", 8000)), 100)
				_ = f.Close()
			}
			return err
		},
		"gone": os.Remove,
		"a later version": func(p string) error {
			db, err := open(Settings{Path: p, MaxBytes: 1 << 20}, "later")
			if err != nil {
				return err
			}
			defer db.close()
			_, err = db.write.Exec("PRAGMA user_version = 99")
			return err
		},
		"no tables": func(p string) error {
			db, err := open(Settings{Path: p, MaxBytes: 1 << 20}, "later")
			if err != nil {
				return err
			}
			defer db.close()
			_, err = db.write.Exec("DROP TABLE subjects")
			return err
		},
	} {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, running %v", name, running), func(t *testing.T) {
				s := settings(t)
				one := begin(t, s, 1)
				for i := range 100 {
					one.link(t, i, 1)
				}
				one.ask(t, api.HistoryQuery{Limit: 1000}, 100)
				if !running {
					one.end()
				}
				ok(t, spoil(s.Path))
				if running {
					one.link(t, 1, 2)
					one.end()
				}
				two := begin(t, s, 2)
				for i := range 10 {
					two.link(t, i, 3)
				}
				two.ask(t, api.HistoryQuery{Limit: 10, Since: time.UnixMicro(1), About: "Leaf003/3"}, 1)
				if !running && (name == "another file" || name == "a later version") {
					if w := two.health.List(time.Now()); len(w) != 1 || w[0].Code != Damaged {
						t.Errorf("warnings %v", w)
					}
					if aside, _ := filepath.Glob(s.Path + ".damaged-*"); len(aside) == 0 {
						t.Error("it was not moved aside")
					}
				}
			})
		}
	}
}

// TestNoDirectory starts without a place to store events, and continues when there is one.
func TestNoDirectory(t *testing.T) {
	s := settings(t)
	s.Path = filepath.Join(filepath.Dir(s.Path), "sub", "history.db")
	x := begin(t, s, 1)
	x.link(t, 1, 1)
	for range 500 {
		if w := x.health.List(time.Now()); len(w) == 1 && w[0].Code == NotStored {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := x.History.History(t.Context(), api.HistoryQuery{}); err == nil {
		t.Error("what is not there answers")
	}
	ok(t, os.Mkdir(filepath.Dir(s.Path), 0o755))
	x.ask(t, api.HistoryQuery{}, 1)
	if w := x.health.List(time.Now()); len(w) != 0 {
		t.Errorf("warnings %v", w)
	}
}

// TestFormerNames stores events as earlier versions wrote them, and reads them under the
// present names of times. Texts stay as they are.
func TestFormerNames(t *testing.T) {
	x := begin(t, settings(t), 1)
	const at = "2026-07-01T08:00:00Z"
	written := []struct{ kind, before, after string }{
		{api.KindStart, `{"version":"1.0.0"}`, `{"release":"1.0.0"}`},
		{api.KindWarning, `{"code":"c","text":"has ,\"since\":\"x\" in it","since":"` + at + `","raised":true}`, `{"code":"c","text":"has ,\"since\":\"x\" in it","raised_at":"` + at + `","raised":true}`},
		{api.KindCable, `{"at":"` + at + `","what":"isolated","text":"x"}`, `{"decided_at":"` + at + `","what":"isolated","text":"x"}`},
		{api.KindDrain, `{"what":"safe","drain":{"name":"x","since":"` + at + `","at":"` + at + `","until":"` + at + `","uses":[]}}`,
			`{"what":"safe","drain":{"name":"x","changed_at":"` + at + `","begins_at":"` + at + `","ends_at":"` + at + `","uses":[]}}`},
		{api.KindJob, `{"what":"created","job":{"id":1,"created":"` + at + `","expires":"` + at + `"}}`, `{"what":"created","job":{"id":1,"created_at":"` + at + `","expires_at":"` + at + `"}}`},
	}
	for _, e := range written {
		x.say(t, e.kind, json.RawMessage(e.before))
	}
	page := x.ask(t, api.HistoryQuery{Oldest: true}, len(written))
	again, found := x.History.After(t.Context(), page.Entries[0].ID, 10)
	if !found || len(again) != len(written)-1 {
		t.Fatalf("%v events after the first", again)
	}
	for i, e := range written {
		if got := string(page.Entries[i].Data); got != e.after {
			t.Errorf("%s reads %s, want %s", e.before, got, e.after)
		}
		if i > 0 && string(again[i-1].Data) != e.after {
			t.Errorf("%s is %s after a restart, want %s", e.before, again[i-1].Data, e.after)
		}
	}
	var job struct{ Job api.Job }
	if err := json.Unmarshal(page.Entries[4].Data, &job); err != nil || job.Job.Created.IsZero() || job.Job.Expires.IsZero() {
		t.Errorf("%+v, %v", job, err)
	}
}

// TestWarningResumed has a warning in force when a run ends and another one cleared before: in
// the next run the first is the same one, since the same time, and the second is new.
func TestWarningResumed(t *testing.T) {
	s := settings(t)
	raised := time.Now().Add(-time.Hour).Truncate(time.Second)
	x := begin(t, s, 1)
	for _, code := range []string{"cable-down", "no-plan"} {
		x.say(t, api.KindWarning, map[string]any{"code": code, "raised": true, "raised_at": raised})
	}
	x.say(t, api.KindWarning, map[string]any{"code": "no-plan", "raised": false, "raised_at": raised})
	x.end()

	x = begin(t, s, 2)
	x.health.Raise("cable-down", "before the history is open, or after it", time.Now())
	<-x.opened
	x.health.Raise("no-plan", "once more", time.Now())
	for _, w := range x.health.List(time.Now()) {
		if w.Since.Equal(raised) != (w.Code == "cable-down") {
			t.Errorf("%s is in force since %v; the one of the run before was raised at %v", w.Code, w.Since, raised)
		}
	}
	x.health.Clear("cable-down")
	x.health.Raise("cable-down", "again", time.Now())
	if w := x.health.List(time.Now())[0]; w.Since.Equal(raised) {
		t.Errorf("a warning that was cleared is in force since %v", w.Since)
	}
}
