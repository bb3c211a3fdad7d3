package libforsmpi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/tomography"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
)

// TestMeasure has the ranks of exchanges by the plan note their times, one or two of them on a
// server, and looks at what rank 0 gives to forsd: all transfers of the plan, and no negative time.
// FORS_LONG=1 has MPICH's, too, whose ranks never give way to others.
func TestMeasure(t *testing.T) {
	data, err := phasetable.Encode(plan(t, fabgen.Spec{Spines: 2, Leaves: 4, LMC: 1}).Table(42))
	if err != nil {
		t.Fatal(err)
	}
	table, err := phasetable.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mpi    string
		ranks  int
		server string
		env    []string
		posts  bool
	}{
		{mpich, 8, "Hca%04r", nil, true},
		{"", 8, "Hca%04r", nil, true},
		{"", 8, "", nil, true}, // two on a server
		{"", 8, "Hca%04r", []string{"FORS_WAY=once"}, false},
	} {
		if c.mpi == mpich && os.Getenv("FORS_LONG") == "" {
			continue
		}
		var mu sync.Mutex
		var posts [][]byte
		forsd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost && r.URL.Path == "/v1/plan/times" && r.URL.Query().Get("epoch") == "42" && r.URL.Query().Get("lids") == "pinned":
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				posts = append(posts, body)
				mu.Unlock()
				_, _ = io.WriteString(w, "{}")
			case r.Method == http.MethodHead:
				<-r.Context().Done()
			case r.Method == http.MethodGet && r.URL.Path == "/v1/plan/phases":
				w.Header().Set("ETag", `"42"`)
				_, _ = w.Write(data)
			default:
				http.Error(w, r.Method+" "+r.URL.String(), http.StatusNotFound)
			}
		}))
		j := job{mpi: c.mpi, ranks: c.ranks, command: []string{compile(t, "mpicc"+c.mpi, "../../examples/alltoall_bench.c"), "-n", "4", "4096"}}
		env := append([]string{"FORS_MEASURE=1", "FORS_VERBOSE=1"}, c.env...)
		bytes := 4096
		if c.server == "" {
			var servers []string
			for r := range c.ranks {
				servers = append(servers, fmt.Sprintf("Hca%04d", r/2))
			}
			env, bytes = append(env, "FORS_SERVER_MAP="+write(t, "servers", []byte(strings.Join(servers, "\n")))), 4*4096
		}
		_, stderr := j.with(builtFor(t, c.mpi), forsd.URL+"?lids=pinned", env...).run(t)
		forsd.CloseClientConnections()
		forsd.Close()
		if !c.posts {
			if len(posts) > 0 {
				t.Errorf("%v: %d exchanges are given to forsd", c.env, len(posts))
			}
			continue
		}
		if len(posts) == 0 {
			t.Errorf("%+v: no exchange is given to forsd: %s", c, stderr)
			continue
		}
		var x api.ExchangeTimes
		if err := json.Unmarshal(posts[0], &x); err != nil {
			t.Fatalf("%v: %s", err, posts[0])
		}
		sent, err := tomography.SentBy(table, &x)
		if err != nil {
			t.Fatalf("%v: %s", err, posts[0])
		}
		n := len(x.Servers)
		late := slices.ContainsFunc(sent, func(s tomography.Sent) bool { return s.Nanos <= 0 || s.Nanos > 60e9 })
		if n != c.ranks && c.server != "" || n != c.ranks/2 && c.server == "" || len(sent) != n*(n-1) || late || x.Bytes != int64(bytes) {
			t.Errorf("%+v: %d servers, %d transfers of %d bytes: %s", c, n, len(sent), x.Bytes, posts[0])
		}
	}
}

// BenchmarkNote measures what the notes of a phase, one of sending and one of receiving, cost a rank, as
// a share of the time that 256 KiB take at 200 Gb/s. It is processor time of a process of its own.
func BenchmarkNote(b *testing.B) {
	programs.Needs(b, "mpicc")
	program := compile(b, "mpicc", "-D_GNU_SOURCE", "-I../libfors", "-Wno-unused-parameter", "testdata/note.c")
	for b.Loop() {
		ns, err := strconv.ParseFloat(strings.TrimSpace(programs.Output(b, program)), 64)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(2*ns, "ns-of-a-phase")
		b.ReportMetric(100*2*ns/(1<<18*8/200.), "%-of-a-phase")
	}
}
