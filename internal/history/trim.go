package history

import (
	"database/sql"
	"errors"
	"time"
)

// trimmer removes entries that are too old or exceed the size limit.
type trimmer struct {
	next time.Time // when to look for old entries again
	told uint64    // dropped events already logged
}

// The pace of trimming.
const (
	trimAfter = 2000 // entries stored
	trimAtOne = 2000 // entries removed per transaction
	trimShare = 10   // a tenth of the entries is removed when the file is too large
)

// trim removes entries that are too old, and the oldest tenth if the file is too large, so
// that the latter is rare. full forces the latter.
func (t *trimmer) trim(db *database, s Settings, now time.Time, full bool) error {
	if !full && db.pending < trimAfter && now.Before(t.next) {
		return nil
	}
	t.next, db.pending = now.Add(lookAfter), 0
	var least, most, used, size int64
	if err := db.write.QueryRow("SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM entries").Scan(&least, &most); err != nil {
		return err
	}
	for pragma, into := range map[string]*int64{"page_count": &used, "page_size": &size} {
		if err := db.write.QueryRow("PRAGMA " + pragma).Scan(into); err != nil {
			return err
		}
	}
	var unused int64
	if err := db.write.QueryRow("PRAGMA freelist_count").Scan(&unused); err != nil {
		return err
	}
	below := least
	if full || (used-unused)*size > s.MaxBytes-s.MaxBytes/trimShare {
		below = least + (most-least)/trimShare + 1
	}
	var young int64 // IDs follow time unless the clock was set
	err := db.write.QueryRow("SELECT id FROM entries WHERE at >= ? ORDER BY id LIMIT 1", now.Add(-s.MaxAge).UnixMicro()).Scan(&young)
	if errors.Is(err, sql.ErrNoRows) {
		young, err = most+1, nil
	}
	if err != nil {
		return err
	}
	return t.remove(db, least, max(below, young))
}

// remove removes the entries with IDs from from up to below, exclusive.
func (t *trimmer) remove(db *database, from, below int64) error {
	for at := from; at < below; at += trimAtOne {
		if err := db.do(func(tx *sql.Tx) error {
			_, err := tx.Exec("DELETE FROM entries WHERE id < ?", min(at+trimAtOne, below))
			return err
		}); err != nil {
			return err
		}
	}
	if from >= below {
		return nil
	}
	return db.do(func(tx *sql.Tx) error {
		if _, err := tx.Exec("DELETE FROM subjects WHERE entry < ?", below); err != nil {
			return err
		}
		// A run stays while it has entries.
		_, err := tx.Exec("DELETE FROM runs WHERE first < (SELECT max(first) FROM runs WHERE first < ?)", below)
		return err
	})
}
