package history

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/forsd/forsd/internal/health"
)

// version is the schema version.
const version = 1

// An entry is one event. Its ID is the run's first ID plus the event's number within the
// run, so a gap is a lost event. Names are kinds and subjects: cables, nodes, people,
// warning codes. The schema serves one query: the entries of a kind, optionally with a
// subject, by time.
const schema = `
CREATE TABLE runs (first INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, whole INTEGER NOT NULL DEFAULT 0);
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE COLLATE NOCASE);
CREATE TABLE entries (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind INTEGER NOT NULL, ended INTEGER, code INTEGER, data TEXT NOT NULL);
CREATE INDEX entries_kind ON entries (kind, at);
CREATE INDEX entries_open ON entries (code) WHERE code IS NOT NULL AND ended IS NULL;
CREATE TABLE subjects (name INTEGER NOT NULL, kind INTEGER NOT NULL, at INTEGER NOT NULL, entry INTEGER NOT NULL, PRIMARY KEY (name, kind, at, entry)) WITHOUT ROWID;
`

// database is an open database.
type database struct {
	path    string
	file    os.FileInfo // identity of the file that was opened
	write   *sql.DB
	read    *sql.DB
	first   int64                // ID of this run's event 0
	run     string               // prefix of its events' IDs
	names   map[string]int64     // IDs by lower-case name; used by the writer only
	pending int                  // entries stored since the last trimming
	former  map[string]time.Time // warnings in force at the end of the run before, by code; nil if this run has had its database already
}

// source returns the driver's data source name for a path.
func source(path string, more ...string) string {
	q := url.Values{"_pragma": append([]string{"busy_timeout(5000)", "cache_size(-1024)"}, more...), "_txlock": {"immediate"}}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// open opens or creates the database and begins a run.
func open(s Settings, run string) (db *database, err error) {
	const page = 4096
	db = &database{path: s.Path, run: run, names: map[string]int64{}}
	if db.write, err = sql.Open("sqlite", source(s.Path, "journal_mode(WAL)", "synchronous(FULL)", "journal_size_limit(4194304)",
		"max_page_count("+strconv.FormatInt(max(64, s.MaxBytes/page), 10)+")")); err != nil {
		return nil, err
	}
	db.write.SetMaxOpenConns(1)
	if db.read, err = sql.Open("sqlite", source(s.Path, "query_only(1)")); err != nil {
		return nil, errors.Join(err, db.write.Close())
	}
	db.read.SetMaxOpenConns(2)
	if err = db.begin(); err == nil {
		db.file, err = os.Stat(s.Path)
	}
	if err != nil {
		db.close()
		return nil, fmt.Errorf("open: %w", err)
	}
	return db, nil
}

// begin creates the schema if necessary, records the run, and marks the warnings of earlier
// runs as ended.
func (db *database) begin() error {
	return db.do(func(tx *sql.Tx) error {
		var have int
		if err := tx.QueryRow("PRAGMA user_version").Scan(&have); err != nil {
			return err
		}
		if have > version {
			return errNewer
		}
		if have == 0 {
			if _, err := tx.Exec(schema + fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
				return err
			}
		}
		err := tx.QueryRow("SELECT first FROM runs WHERE run = ?", db.run).Scan(&db.first)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := tx.QueryRow("SELECT max(coalesce((SELECT max(id) FROM entries), 0), coalesce((SELECT max(first) FROM runs), 0)) + 1").Scan(&db.first); err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO runs (first, run) VALUES (?, ?)", db.first, db.run); err != nil {
			return err
		}
		if db.former, err = inForce(tx); err != nil {
			return err
		}
		_, err = tx.Exec("UPDATE entries SET ended = ? WHERE code IS NOT NULL AND ended IS NULL", time.Now().UnixMicro())
		return err
	})
}

// inForce returns the codes of warnings that have not ended, and when they were raised.
func inForce(tx *sql.Tx) (raised map[string]time.Time, err error) {
	rows, err := tx.Query("SELECT data FROM entries WHERE code IS NOT NULL AND ended IS NULL")
	found, err := scan(rows, err, func(r *row) []any { return []any{&r.data} })
	raised = map[string]time.Time{}
	for _, r := range found {
		var w health.Warning
		if json.Unmarshal([]byte(r.data), &w) == nil && !w.Since.IsZero() {
			raised[w.Code] = w.Since
		}
	}
	return raised, err
}

// scan reads the result of a query; columns names where the columns of a row belong.
func scan[T any](rows *sql.Rows, err error, columns func(*T) []any) (out []T, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var x T
		if err := rows.Scan(columns(&x)...); err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, rows.Err()
}

func (db *database) do(f func(*sql.Tx) error) error {
	tx, err := db.write.Begin()
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // if the disk is full, SQLite has already rolled back
		return err
	}
	return tx.Commit()
}

// insert stores events in one transaction.
func (db *database) insert(batch []noted) error {
	if len(batch) == 0 {
		return nil
	}
	err := db.do(func(tx *sql.Tx) error {
		for i := range batch {
			if err := db.insertOne(tx, &batch[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		clear(db.names) // the transaction's new names were rolled back
		return fmt.Errorf("store: %w", err)
	}
	db.pending += len(batch)
	return nil
}

// insertOne stores one event.
func (db *database) insertOne(tx *sql.Tx, e *noted) error {
	run, n, ok := number(e.ID)
	if !ok || run != db.run {
		return fmt.Errorf("event %s is not of the run %s", e.ID, db.run)
	}
	kind, err := db.name(tx, e.Kind)
	if err != nil {
		return err
	}
	id, at := db.first+n, e.at.UnixMicro()
	about := aboutOf(e.Kind, e.Data)
	var code any
	if about.code != "" {
		number, err := db.name(tx, about.code)
		if err != nil {
			return err
		}
		// A warning that is cleared, or raised with a new text, ends its previous entry.
		if _, err := tx.Exec("UPDATE entries SET ended = ? WHERE code = ? AND ended IS NULL", at, number); err != nil {
			return err
		}
		if about.begins {
			code = number
		}
	}
	if _, err := tx.Exec("INSERT OR IGNORE INTO entries (id, at, kind, code, data) VALUES (?, ?, ?, ?, ?)", id, at, kind, code, string(e.Data)); err != nil {
		return err
	}
	for _, s := range about.subjects {
		name, err := db.name(tx, s)
		if err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT OR IGNORE INTO subjects (name, kind, at, entry) VALUES (?, ?, ?, ?)", name, kind, at, id); err != nil {
			return err
		}
	}
	return nil
}

// mostNames limits the names cached in memory.
const mostNames = 20_000

// name returns the ID of a name, which it inserts if necessary.
func (db *database) name(tx *sql.Tx, name string) (id int64, err error) {
	key := strings.ToLower(name)
	if id, ok := db.names[key]; ok {
		return id, nil
	}
	err = tx.QueryRow("SELECT id FROM names WHERE name = ?", name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRow("INSERT INTO names (name) VALUES (?) RETURNING id", name).Scan(&id)
	}
	if err != nil {
		return 0, err
	}
	if len(db.names) >= mostNames {
		clear(db.names)
	}
	db.names[key] = id
	return id, nil
}

// number splits an event's ID into its run and its number within the run.
func number(id string) (run string, n int64, ok bool) {
	run, text, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(text, 10, 63)
	return run, n, err == nil && n >= 0
}

// close closes the database. Errors do not matter: everything committed is stored.
func (db *database) close() {
	_ = db.read.Close()
	_ = db.write.Close()
}

// errNewer means that a later version of forsd made the database.
var errNewer = errors.New("it was made by a later version of forsd")

// failure returns the primary SQLite result code of an error, or 0.
func failure(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// damaged reports whether err means that the database is unreadable and must be replaced.
func damaged(err error) bool {
	code := failure(err)
	return code == lib.SQLITE_CORRUPT || code == lib.SQLITE_NOTADB || code == lib.SQLITE_FORMAT || code == lib.SQLITE_ERROR || errors.Is(err, errNewer)
}

// mostAside is how many damaged databases are kept.
const mostAside = 2

// moveAside renames a database and its log files, and returns the new path.
func moveAside(path string) (string, error) {
	aside := path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000")
	if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	for _, log := range []string{"-wal", "-shm"} {
		if err := os.Rename(path+log, aside+log); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	old, err := filepath.Glob(path + ".damaged-*")
	if err != nil {
		return "", err
	}
	old = slices.DeleteFunc(old, func(p string) bool { return strings.HasSuffix(p, "-wal") || strings.HasSuffix(p, "-shm") })
	slices.Sort(old)
	for _, p := range old[:max(0, len(old)-mostAside)] {
		for _, log := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(p + log) // on failure it only takes space
		}
	}
	return aside, nil
}
