package history

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
)

// TestMillion queries a history of a million events, or fewer without FORS_LONG, for pages in
// each way. It checks that no query scans the entries, and prints the times.
func TestMillion(t *testing.T) {
	events := 20_000
	if os.Getenv("FORS_LONG") != "" {
		events = 1_000_000
	}
	s := settings(t)
	db, err := open(s, "x")
	ok(t, err)
	defer db.close()
	at := time.Now().Add(-time.Duration(events) * time.Second)
	for n := 0; n < events; {
		var batch []noted
		for range mostInOne {
			n++
			at = at.Add(time.Second)
			batch = append(batch, sample(n, at))
		}
		ok(t, db.insert(batch))
	}
	middle := at.Add(-time.Duration(events/2) * time.Second)
	var worst time.Duration
	for name, q := range map[string]api.HistoryQuery{
		"newest": {}, "oldest": {Oldest: true}, "thousand": {Limit: api.MostHistory},
		"rare kind": {Kinds: []string{api.KindOrder}}, "kinds": {Kinds: []string{api.KindOrder, api.KindLink}},
		"cable": {About: "Leaf007/3"}, "node": {About: "Spine001"}, "person": {By: "anna"}, "person about a cable": {By: "anna", About: "Leaf007"},
		"time": {Since: middle, Until: middle.Add(time.Hour)}, "old cable": {About: "Leaf007", Until: middle}, "nothing": {About: "Leaf999"},
	} {
		var took []time.Duration
		for range 5 {
			begin := time.Now()
			_, err := db.page(t.Context(), q)
			ok(t, err)
			took = append(took, time.Since(begin))
		}
		slices.Sort(took)
		worst = max(worst, took[2])
		t.Logf("%-20s %v", name, took[2])
	}
	file, err := os.Stat(db.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events: %.1f MB, the slowest page %v", events, float64(file.Size())/1e6, worst)
	db.plans(t)
}

// sample returns an event of a busy site: most are about cables, a few are orders.
func sample(n int, at time.Time) noted {
	e := api.Event{ID: fmt.Sprint("x-", n), Kind: api.KindLink}
	switch {
	case n%1000 == 0:
		e.Kind, e.Data = api.KindOrder, []byte(`{"what":"reroute","by":{"uid":1000,"user":"anna","pid":1},"result":"planned"}`)
	case n%10 == 0:
		e.Kind, e.Data = api.KindEpoch, fmt.Appendf(nil, `{"epoch":%d,"phases":360,"what":["Leaf%03d port %d – Spine%03d port %d went down"]}`, n, n%64, n%32, n%32, n%64)
	default:
		e.Data = fmt.Appendf(nil, `{"kind":"cable-down","text":"Leaf%03d port %d – Spine%03d port %d went down","at":{"node":"0x%016x","port":%d},"peer":{"node":"0x%016x","port":%d}}`,
			n%64, n%32, n%32, n%64, 0x200000+n%64, n%32, 0x300000+n%32, n%64)
	}
	return noted{e, at}
}

// plans fails if SQLite would read entries one by one to answer a query.
func (db *database) plans(t *testing.T) {
	t.Helper()
	for _, q := range []string{
		"SELECT e.id FROM entries e WHERE e.kind = 1 AND (e.at, e.id) < (5, 5) AND e.at >= 1 ORDER BY e.at DESC, e.id DESC LIMIT 100",
		"SELECT e.id FROM subjects s JOIN entries e ON e.id = s.entry WHERE s.kind = 1 AND s.name = 2 AND (s.at, s.entry) < (5, 5) ORDER BY s.at DESC, s.entry DESC LIMIT 100",
	} {
		rows, err := db.read.Query("EXPLAIN QUERY PLAN " + q)
		ok(t, err)
		for rows.Next() {
			var a, b, c int
			var detail string
			ok(t, rows.Scan(&a, &b, &c, &detail))
			if strings.HasPrefix(detail, "SCAN") || strings.Contains(detail, "TEMP B-TREE") {
				t.Errorf("%s: %s", q, detail)
			}
		}
		ok(t, rows.Err(), rows.Close())
	}
}
