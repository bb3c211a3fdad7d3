package history

import (
	"bufio"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
)

// TestMain runs a forsd that writes history if TestKills started the process.
func TestMain(m *testing.M) {
	if path := os.Getenv("HISTORY_TEST_WRITE"); path != "" {
		writeForEver(path, os.Getenv("HISTORY_TEST_RUN"))
	}
	os.Exit(m.Run())
}

// writeForEver stores events, and prints the number of the last event of each batch once it is
// committed.
func writeForEver(path, run string) {
	s := Settings{Path: path, MaxAge: time.Hour, MaxBytes: 1 << 30}
	db, err := open(s, run)
	for n := 0; err == nil; {
		var batch []noted
		for range 1 + rand.IntN(40) {
			n++
			batch = append(batch, noted{api.Event{ID: fmt.Sprint(run, "-", n), Kind: api.KindLink, Data: dataOf(run, n)}, time.Now()})
		}
		if err = db.insert(batch); err == nil {
			fmt.Println(n)
		}
	}
	panic(err)
}

// dataOf returns the data of an event, from its run and number.
func dataOf(run string, n int) []byte {
	return fmt.Appendf(nil, `{"text":"Leaf%03d port %d – Spine001 port 2 went down","run":%q,"n":%d}`, n%40, n%30, run, n)
}

// TestKills repeatedly kills a process that writes history to the same database. It checks that
// committed events are present, in order and with their numbers.
func TestKills(t *testing.T) {
	kills := 12
	if os.Getenv("FORS_LONG") != "" {
		kills = 1000
	}
	s := settings(t)
	committed := map[string]int{}
	for k := range kills {
		run := fmt.Sprint("run", k)
		committed[run] = writeAndKill(t, s.Path, run)
		if kills <= 12 || k%50 == 49 {
			holds(t, s, committed)
		}
	}
	holds(t, s, committed)
	total := 0
	for _, n := range committed {
		total += n
	}
	t.Logf("%d kills, %d events committed before them", kills, total)
}

// writeAndKill runs a process that writes history and kills it after a random time. It returns
// the last committed number.
func writeAndKill(t *testing.T, path, run string) (last int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "HISTORY_TEST_WRITE="+path, "HISTORY_TEST_RUN="+run)
	out, err := cmd.StdoutPipe()
	ok(t, err, cmd.Start())
	stop := time.AfterFunc(time.Duration(rand.IntN(int(120*time.Millisecond))), func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, err := strconv.Atoi(lines.Text()); err == nil {
			last = n
		}
	}
	_ = cmd.Wait() // it was killed
	return last
}

// holds reads the whole database, and checks that the entries of each run start at 1 and have
// no gap, that their data are right, and that no committed entry is missing.
func holds(t *testing.T, s Settings, committed map[string]int) {
	t.Helper()
	db, err := open(s, fmt.Sprint("look", len(committed)))
	ok(t, err)
	defer db.close()
	var verdict string
	ok(t, db.write.QueryRow("PRAGMA integrity_check").Scan(&verdict))
	if verdict != "ok" {
		t.Fatal(verdict)
	}
	rows, err := db.write.Query("SELECT id, data FROM entries ORDER BY id")
	ok(t, err)
	defer rows.Close()
	runs, err := db.runs(t.Context())
	ok(t, err)
	have := map[string]int{}
	for rows.Next() {
		var id int64
		var data sql.RawBytes
		ok(t, rows.Scan(&id, &data))
		run, text, _ := strings.Cut(eventID(id, runs), "-")
		n, err := strconv.Atoi(text)
		ok(t, err)
		if n != have[run]+1 || string(data) != string(dataOf(run, n)) {
			t.Fatalf("entry %d follows %d of run %s, and says %s", n, have[run], run, data)
		}
		have[run] = n
	}
	ok(t, rows.Err())
	for run, n := range committed {
		if have[run] < n {
			t.Fatalf("run %s committed %d entries, and %d are there", run, n, have[run])
		}
	}
}
