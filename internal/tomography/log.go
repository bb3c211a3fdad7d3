package tomography

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// Sent is a transfer as its sender and its receiver have logged it.
type Sent struct {
	Phase    int32 // numbered through all exchanges
	Src, Dst ib.GUID
	DLID     ib.LID
	Bytes    int64
	Nanos    int64 // from the send by the sender's clock to the arrival by the receiver's
}

// key identifies a transfer in a log of FORS_LOG.
type key struct{ comm, exchange, phase, src, dst string }

// columns of FORS_LOG that are read.
var columns = []string{"comm", "exchange", "phase", "what", "src_rank", "dst_rank", "src_guid", "dst_guid", "dlid", "time_ns", "bytes"}

// ReadLogs reads the files rank-N.csv of folders, as FORS_LOG has libforsmpi write them, one
// folder for a run of a program. It returns the transfers between servers whose arrival is
// logged.
func ReadLogs(dirs ...string) (all []Sent, err error) {
	phases := int32(0)
	for _, dir := range dirs {
		sent, err := readLogs(dir)
		if err != nil {
			return nil, err
		}
		last := phases
		for i := range sent {
			sent[i].Phase += last
			phases = max(phases, sent[i].Phase+1)
		}
		all = append(all, sent...)
	}
	return all, nil
}

func readLogs(dir string) ([]Sent, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "rank-*.csv"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no rank-N.csv: name the directory that FORS_LOG named", dir)
	}
	r := reader{sent: map[key]*Sent{}, arrived: map[key]int64{}, phases: map[[3]string]int32{}}
	for _, path := range paths {
		if err := r.read(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	var out []Sent
	for _, k := range r.order {
		s := r.sent[k]
		if at, ok := r.arrived[k]; ok && s.Src != s.Dst {
			s.Nanos = at - s.Nanos
			out = append(out, *s)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no transfer whose arrival is logged: run the program with FORS_WAY=plan", dir)
	}
	return out, nil
}

type reader struct {
	sent    map[key]*Sent // Nanos is when it was sent
	order   []key
	arrived map[key]int64
	phases  map[[3]string]int32
}

func (r *reader) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	rows := csv.NewReader(file)
	rows.ReuseRecord = true
	head, err := rows.Read()
	if err != nil {
		return fmt.Errorf("it has no line with the columns: %w", err)
	}
	var at [11]int
	for i, name := range columns {
		if at[i] = slices.Index(head, name); at[i] < 0 {
			return fmt.Errorf("it has no column %s: want a log of FORS_LOG", name)
		}
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.line(row, at); err != nil {
			line, _ := rows.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// line takes a send in a phase, or an arrival.
func (r *reader) line(row []string, at [11]int) error {
	cell := func(i int) string { return row[at[i]] }
	what := cell(3)
	if what != "send" && what != "received" || cell(2) == "-1" {
		return nil
	}
	k := key{cell(0), cell(1), cell(2), cell(4), cell(5)}
	time, err := strconv.ParseInt(cell(9), 10, 64)
	if err != nil {
		return fmt.Errorf("time_ns: %w", err)
	}
	if what == "received" {
		r.arrived[k] = time
		return nil
	}
	src, err := ib.ParseGUID(cell(6))
	if err != nil {
		return fmt.Errorf("src_guid: %w", err)
	}
	dst, err := ib.ParseGUID(cell(7))
	if err != nil {
		return fmt.Errorf("dst_guid: %w", err)
	}
	lid, err := strconv.ParseUint(cell(8), 10, 16)
	if err != nil {
		return fmt.Errorf("dlid: %w", err)
	}
	size, err := strconv.ParseInt(cell(10), 10, 64)
	if err != nil {
		return fmt.Errorf("bytes: %w", err)
	}
	phase := [3]string{k.comm, k.exchange, k.phase}
	if _, known := r.phases[phase]; !known {
		r.phases[phase] = int32(len(r.phases))
	}
	if r.sent[k] == nil {
		r.order = append(r.order, k)
	}
	r.sent[k] = &Sent{r.phases[phase], src, dst, ib.LID(lid), size, time}
	return nil
}

// farthest is how far a time may be from zero, in nanoseconds: the difference of two is a
// number, and exact as a float64.
const farthest = 1 << 52

// SentBy pairs the times that servers have noted in an exchange by a plan.
func SentBy(plan *phasetable.View, x *api.ExchangeTimes) ([]Sent, error) {
	if x.Bytes < 1 {
		return nil, fmt.Errorf("bytes: %d: want the size of a transfer", x.Bytes)
	}
	for i, p := range x.Phases {
		if i > 0 && p <= x.Phases[i-1] || int(p) >= plan.Phases() {
			return nil, fmt.Errorf("phases: %d at place %d: want ascending numbers below %d, the phases of the plan", p, i, plan.Phases())
		}
	}
	of := make([]*api.ServerTimes, plan.Servers())
	for i := range x.Servers {
		s := &x.Servers[i]
		n, known := plan.FindGUID(s.GUID)
		switch {
		case !known:
			return nil, fmt.Errorf("servers: the plan has no %s", s.GUID)
		case of[n] != nil:
			return nil, fmt.Errorf("servers: %s occurs twice", s.GUID)
		case len(s.Sent) != len(x.Phases) || len(s.Received) != len(x.Phases):
			return nil, fmt.Errorf("servers: %s has %d times sent and %d received: want one for each of %d phases", s.GUID, len(s.Sent), len(s.Received), len(x.Phases))
		}
		for _, list := range [][]int64{s.Sent, s.Received} {
			for _, t := range list {
				if t > farthest || t < -farthest {
					return nil, fmt.Errorf("servers: %s has the time %d: want at most 2^52 ns", s.GUID, t)
				}
			}
		}
		of[n] = s
	}
	var out []Sent
	for i, p := range x.Phases {
		for n, s := range of {
			to := plan.At(n, int(p))
			if s == nil || s.Sent[i] == 0 || to.SendTo == phasetable.Idle || to.SendTo == n || of[to.SendTo] == nil || of[to.SendTo].Received[i] == 0 {
				continue
			}
			out = append(out, Sent{int32(i), s.GUID, of[to.SendTo].GUID, to.DLID, x.Bytes, of[to.SendTo].Received[i] - s.Sent[i]})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("servers: no transfer of the plan has both its times")
	}
	return out, nil
}

// Measure finds the slow parts of a fabric by transfers on its tables; see Links.Find.
func Measure(f *topology.Fabric, tables *lft.Tables, sent []Sent, oneClock bool) (*api.Measured, error) {
	links := Of(f)
	transfers, err := links.Transfers(tables, sent)
	if err != nil {
		return nil, err
	}
	return links.Find(transfers, oneClock)
}
