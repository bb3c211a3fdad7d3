package history

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
)

// This file reads the history, concurrently with the goroutine that writes it.

// mostTime limits the time of a query.
const mostTime = 5 * time.Second

// errNone is returned while the database is not open.
var errNone = api.Errorf(api.CodeNotReady, "the history cannot be read now: the warning %s says why", NotStored)

// reader returns the open database, after waiting for the first attempt to open it.
func (h *History) reader(ctx context.Context) (*database, error) {
	select {
	case <-h.opened:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if db := h.db.Load(); db != nil {
		return db, nil
	}
	return nil, errNone
}

// History returns a page of entries.
func (h *History) History(ctx context.Context, q api.HistoryQuery) (*api.HistoryPage, error) {
	ctx, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	db, err := h.reader(ctx)
	if err != nil {
		return nil, err
	}
	page, err := db.page(ctx, q)
	if err != nil && ctx.Err() == nil && failure(err) != 0 {
		return nil, api.Errorf(api.CodeNotReady, "the history cannot be read: %v", err)
	}
	return page, err
}

// row is a row of the table entries.
type row struct {
	id, at int64
	kind   string
	ended  sql.NullInt64
	data   string
}

// place is the position of an entry in time order; a page begins after it.
type place struct{ at, id int64 }

// parsePlace parses a cursor, as page makes it.
func parsePlace(text string) (p place, err error) {
	one, other, _ := strings.Cut(text, ".")
	p.at, err = strconv.ParseInt(one, 36, 64)
	if err == nil {
		p.id, err = strconv.ParseInt(other, 36, 64)
	}
	if err != nil {
		return p, api.BadRequest("cursor=%.40s: want what the page before has as next", text)
	}
	return p, nil
}

// start returns where a query begins: at the cursor or at its time limit, whichever leaves
// fewer entries.
func start(q api.HistoryQuery) (from place, err error) {
	const ever = 1 << 62
	first := place{ever, ever}
	switch {
	case q.Oldest && q.Since.IsZero():
		first = place{-ever, -ever}
	case q.Oldest:
		first = place{q.Since.UnixMicro(), -ever}
	case !q.Until.IsZero():
		first = place{q.Until.UnixMicro(), -ever}
	}
	if q.Cursor == "" {
		return first, nil
	}
	if from, err = parsePlace(q.Cursor); err == nil && (q.Oldest && from.at < first.at || !q.Oldest && from.at > first.at) {
		from = first
	}
	return from, err
}

// page reads the entries of each kind in order and merges them.
func (db *database) page(ctx context.Context, q api.HistoryQuery) (*api.HistoryPage, error) {
	out := &api.HistoryPage{Entries: []api.HistoryEntry{}}
	q.Limit = cmp.Or(q.Limit, 100)
	kinds, err := db.kinds(ctx, q.Kinds)
	if err != nil {
		return nil, err
	}
	about, person, known, err := db.subjects(ctx, q)
	if err != nil || !known {
		return out, err
	}
	from, err := start(q)
	if err != nil {
		return nil, err
	}
	var rows []row
	for id, kind := range kinds {
		more, err := db.rows(ctx, q, from, id, kind, about, person)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	slices.SortFunc(rows, func(a, b row) int {
		order := cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
		if q.Oldest {
			return order
		}
		return -order
	})
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		last := rows[q.Limit-1]
		out.Next = strconv.FormatInt(last.at, 36) + "." + strconv.FormatInt(last.id, 36)
	}
	runs, err := db.runs(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		e := api.HistoryEntry{Event: api.Event{ID: eventID(r.id, runs), Kind: r.kind, Data: renewed(r.kind, r.data)}, At: time.UnixMicro(r.at).UTC()}
		if r.ended.Valid {
			e.Ended = time.UnixMicro(r.ended.Int64).UTC()
		}
		out.Entries = append(out.Entries, e)
	}
	return out, nil
}

// renamed replaces the names that times had in events of earlier versions.
var renamed = map[string]*strings.Replacer{
	api.KindWarning: strings.NewReplacer(`,"since":"`, `,"raised_at":"`),
	api.KindCable:   strings.NewReplacer(`{"at":"`, `{"decided_at":"`),
	api.KindDrain:   strings.NewReplacer(`,"since":"`, `,"changed_at":"`, `,"at":"`, `,"begins_at":"`, `,"until":"`, `,"ends_at":"`),
	api.KindJob:     strings.NewReplacer(`,"created":"`, `,"created_at":"`, `,"expires":"`, `,"expires_at":"`),
	api.KindStart:   strings.NewReplacer(`{"version":"`, `{"release":"`),
}

// renewed returns an event's data under the present names. Quotes in a text are escaped, so
// only names are replaced.
func renewed(kind, data string) []byte {
	if r := renamed[kind]; r != nil {
		data = r.Replace(data)
	}
	return []byte(data)
}

// kinds returns the kinds to read, by their IDs.
func (db *database) kinds(ctx context.Context, wanted []string) (map[int64]string, error) {
	// Each kind is found by one step in the index of entries.
	rows, err := db.read.QueryContext(ctx, `WITH RECURSIVE k(kind) AS (SELECT min(kind) FROM entries
		UNION ALL SELECT (SELECT min(kind) FROM entries WHERE kind > k.kind) FROM k WHERE k.kind IS NOT NULL)
		SELECT id, name FROM k JOIN names ON names.id = k.kind`)
	found, err := scan(rows, err, func(r *row) []any { return []any{&r.id, &r.kind} })
	out := map[int64]string{}
	for _, r := range found {
		if len(wanted) == 0 || slices.Contains(wanted, r.kind) {
			out[r.id] = r.kind
		}
	}
	return out, err
}

// subjects returns the IDs of the query's subject and person, 0 if not given. known is
// false if the database has no such name, so that no entry can match.
func (db *database) subjects(ctx context.Context, q api.HistoryQuery) (about, by int64, known bool, err error) {
	look := func(name string, into *int64) {
		if name == "" || err != nil {
			return
		}
		if err = db.read.QueryRowContext(ctx, "SELECT id FROM names WHERE name = ?", name).Scan(into); errors.Is(err, sql.ErrNoRows) {
			err, known = nil, false
		}
	}
	known = true
	look(q.About, &about)
	if q.By != "" {
		look(person(q.By), &by)
	}
	return about, by, known, err
}

// rows reads one page of one kind, plus one entry.
func (db *database) rows(ctx context.Context, q api.HistoryQuery, from place, id int64, kind string, about, by int64) ([]row, error) {
	if about == 0 {
		about, by = by, 0
	}
	table, at, number, where, args := "entries e", "e.at", "e.id", "e.kind = ?", []any{id}
	if about != 0 {
		table, at, number = "subjects s JOIN entries e ON e.id = s.entry", "s.at", "s.entry"
		where, args = "s.kind = ? AND s.name = ?", []any{id, about}
	}
	than, order := "<", "DESC"
	if q.Oldest {
		than, order = ">", "ASC"
	}
	where += fmt.Sprintf(" AND (%s, %s) %s (?, ?)", at, number, than)
	args = append(args, from.at, from.id)
	if !q.Since.IsZero() && !q.Oldest {
		where += " AND " + at + " >= ?"
		args = append(args, q.Since.UnixMicro())
	}
	if !q.Until.IsZero() && q.Oldest {
		where += " AND " + at + " < ?"
		args = append(args, q.Until.UnixMicro())
	}
	if by != 0 {
		where += " AND EXISTS (SELECT 1 FROM subjects p WHERE p.name = ? AND p.kind = s.kind AND p.at = s.at AND p.entry = s.entry)"
		args = append(args, by)
	}
	args = append(args, q.Limit+1)
	found, err := db.read.QueryContext(ctx, fmt.Sprintf("SELECT e.id, e.at, e.ended, e.data FROM %s WHERE %s ORDER BY %s %s, %s %s LIMIT ?", table, where, at, order, number, order), args...)
	return scan(found, err, func(r *row) []any { r.kind = kind; return []any{&r.id, &r.at, &r.ended, &r.data} })
}

// run is a run of forsd.
type run struct {
	first int64
	id    string
	whole bool // it ended after storing all events
}

// runs returns the runs, ascending.
func (db *database) runs(ctx context.Context) ([]run, error) {
	found, err := db.read.QueryContext(ctx, "SELECT first, run, whole FROM runs ORDER BY first")
	return scan(found, err, func(r *run) []any { return []any{&r.first, &r.id, &r.whole} })
}

// runOf returns the index of the run of an entry.
func runOf(id int64, runs []run) int {
	i, exactly := slices.BinarySearchFunc(runs, id, func(r run, id int64) int { return cmp.Compare(r.first, id) })
	if !exactly {
		i--
	}
	return max(0, i)
}

// eventID returns the ID of an entry's event.
func eventID(id int64, runs []run) string {
	if len(runs) == 0 {
		return strconv.FormatInt(id, 10)
	}
	r := runs[runOf(id, runs)]
	return r.id + "-" + strconv.FormatInt(id-r.first, 10)
}

// After returns at most most events after the event with the ID, with an event of
// KindMissed in place of lost ones. It reports false if they cannot be found.
func (h *History) After(ctx context.Context, id string, most int) ([]api.Event, bool) {
	ctx, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	db, err := h.reader(ctx)
	if err != nil {
		return nil, false
	}
	events, found, err := db.after(ctx, id, most)
	return events, found && err == nil
}

// after is After on the database.
func (db *database) after(ctx context.Context, id string, most int) ([]api.Event, bool, error) {
	runs, err := db.runs(ctx)
	if err != nil {
		return nil, false, err
	}
	name, n, ok := number(id)
	at := slices.IndexFunc(runs, func(r run) bool { return r.id == name })
	if !ok || at < 0 {
		return nil, false, nil
	}
	var least int64
	if err := db.read.QueryRowContext(ctx, "SELECT coalesce(min(id), 0) FROM entries").Scan(&least); err != nil {
		return nil, false, err
	}
	last := runs[at].first + n
	if last+1 < least || at+1 < len(runs) && last >= runs[at+1].first {
		return nil, false, nil // the following events were removed or never stored
	}
	rows, err := db.read.QueryContext(ctx, "SELECT e.id, names.name, e.data FROM entries e JOIN names ON names.id = e.kind WHERE e.id > ? ORDER BY e.id LIMIT ?", last, most)
	found, err := scan(rows, err, func(r *row) []any { return []any{&r.id, &r.kind, &r.data} })
	var out []api.Event
	for _, r := range found {
		e := api.Event{ID: eventID(r.id, runs), Kind: r.kind, Data: renewed(r.kind, r.data)}
		out = append(missing(out, runs, last, r.id), e)
		last = r.id
	}
	if len(out) == 0 && at+1 < len(runs) {
		out = missing(out, runs, last, runs[len(runs)-1].first) // the following events are not stored yet
	}
	return out, true, err
}

// missing appends an event of KindMissed if events between two entries were lost.
func missing(out []api.Event, runs []run, last, next int64) []api.Event {
	one, other := runOf(last, runs), runOf(next, runs)
	lost := one == other && next > last+1
	for r := one; r < other; r++ {
		lost = lost || !runs[r].whole
	}
	if one != other {
		lost = lost || next > runs[other].first+1
	}
	if !lost {
		return out
	}
	id := runs[other].id + "-" + strconv.FormatInt(max(0, next-1-runs[other].first), 10)
	return append(out, api.Event{ID: id, Kind: api.KindMissed, Data: []byte("{}")})
}
