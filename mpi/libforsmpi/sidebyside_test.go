package libforsmpi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/topology"
)

// beside is a job with lanes of its own.
type beside struct {
	name  string
	hosts []string // by rank
	log   string   // directory
	base  uint64   // its plan for base LIDs
}

// sideBySide draws two jobs that have half of the hosts of each leaf each, their ranks in
// any order.
func sideBySide(t testing.TB, n int) []*beside {
	rng := rand.New(rand.NewPCG(6, 6))
	jobs := []*beside{{name: "left", log: t.TempDir()}, {name: "right", log: t.TempDir()}}
	for leaf := range n {
		for i, slot := range rng.Perm(n) {
			j := jobs[2*i/n]
			j.hosts = append(j.hosts, fmt.Sprintf("Hca%04d", n*leaf+slot))
		}
	}
	for _, j := range jobs {
		rng.Shuffle(len(j.hosts), func(a, b int) { j.hosts[a], j.hosts[b] = j.hosts[b], j.hosts[a] })
	}
	return jobs
}

// routed waits until the base LIDs of a job are routed over its own lanes.
func (x *site) routed(j *beside) {
	x.Helper()
	err := x.Until(x.ctx, func() error {
		now, err := x.Client.Job(x.ctx, j.name)
		if err != nil {
			return err
		}
		if now.Base == nil || !now.Base.Routed || now.Base.Epoch <= now.ID || len(now.Lanes) == 0 {
			return fmt.Errorf("job %s has lanes %v and the plan for base LIDs %+v", j.name, now.Lanes, now.Base)
		}
		j.base = now.Base.Epoch
		return nil
	})
	if err != nil {
		x.Fatal(err)
	}
}

// TestJobsSideBySide runs a program on each half of the servers of FT(2;6,6) at the same
// time, as jobs with lanes of their own and with the shim's defaults. The logs are walked by
// base LIDs on the tables read back: no link has two transfers of a job in a phase, and none
// has transfers of both jobs in any phases, so that they never meet, however the phases of
// the jobs overlap. On the earlier tables they do meet.
func TestJobsSideBySide(t *testing.T) {
	const n = 6
	shim := needs(t)
	program := compile(t, "mpicc", "../../examples/eventbuilder.c")
	x, _, before := up(t, n)
	jobs := sideBySide(t, n)
	for _, j := range jobs {
		if _, err := x.Client.CreateJob(x.ctx, api.JobRequest{Name: j.name, Hosts: j.hosts, OwnLanes: true}); err != nil {
			t.Fatal(err)
		}
		x.routed(j)
	}
	_, err := x.Settled(x.ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	sight, err := x.Look(x.ctx) // not Check: these tables are not those of a fabric without jobs
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		x.routed(j) // the plan of now
	}

	x.together(shim, program, jobs)

	var logs [][][]line
	for _, j := range jobs {
		log := readLogs(t, j.log, len(j.hosts))
		logs = append(logs, log)
		epochs := checkEpochs(t, log)
		checkPairs(t, log)
		toBaseLIDs(t, log, sight)
		walked := checkLinks(t, log, j.base, sight.Tree.Fabric, sight.Tables)
		t.Logf("%s: %d exchanges by base plan %d, %d transfers between servers", j.name, len(epochs[j.base]), j.base, walked)
		if pairs := len(j.hosts) * (len(j.hosts) - 1); len(epochs) != 1 || walked != pairs*len(epochs[j.base]) || eachPair(log) != pairs {
			t.Errorf("%s: of %d pairs of servers %d exchanged, by %d transfers in %d exchanges; epochs %v", j.name, pairs, eachPair(log), walked, len(epochs[j.base]), len(epochs))
		}
	}
	if err := meet(t, sight, logs[0], logs[1]); err != nil {
		t.Error(err)
	}
	if meet(t, before, logs[0], logs[1]) == nil {
		t.Error("on the tables of a fabric without jobs they do not meet either, so that this shows nothing")
	}
}

// together runs a program on all jobs, and ends it when each has made some exchanges
// while the others ran.
func (x *site) together(shim, program string, jobs []*beside) {
	x.Helper()
	var all []*running
	for _, j := range jobs {
		servers := write(x, "servers", []byte(strings.Join(j.hosts, "\n")))
		r, err := job{ranks: len(j.hosts), command: []string{program, "-b", "256"}}.alone(shim, x.table,
			"FORSD_JOB="+j.name, "FORS_SERVER_MAP="+servers, "FORS_LOG="+j.log).start(x.ctx)
		if err != nil {
			x.Fatal(err)
		}
		all = append(all, r)
	}
	for _, j := range jobs {
		x.grows(j.log, j.base)
	}
	x.grows(jobs[0].log, jobs[0].base) // now that the last runs
	for _, r := range all {
		if err := r.interrupt(); err != nil {
			x.Fatal(err)
		}
	}
	for i, r := range all {
		out, stderr := r.wait(x)
		x.Logf("%s: %s", jobs[i].name, strings.TrimSpace(out))
		stderr = strings.ReplaceAll(stderr, "mpirun: Forwarding signal 10 to job\n", "")
		if !strings.HasSuffix(out, "lost 0, doubled 0, damaged 0\n") || stderr != "" {
			x.Errorf("%s: output %q, errors %q", jobs[i].name, out, stderr)
		}
	}
}

// eachPair counts the pairs of servers of which one sent to the other.
func eachPair(logs [][]line) int {
	pairs := map[[2]ib.GUID]bool{}
	for _, log := range logs {
		for _, l := range log {
			if l.what == "send" && l.srcGUID != l.dstGUID {
				pairs[[2]ib.GUID{l.srcGUID, l.dstGUID}] = true
			}
		}
	}
	return len(pairs)
}

// meet returns an error that names a link used by transfers of two jobs, at any time.
func meet(t testing.TB, sight *e2e.Sight, jobs ...[][]line) error {
	t.Helper()
	type user struct {
		job int
		line
	}
	w := newWalker(sight.Tree.Fabric, sight.Tables)
	users := map[topology.PortRef]user{}
	for i, logs := range jobs {
		for _, log := range logs {
			for _, l := range log {
				if l.what != "send" || l.srcGUID == l.dstGUID {
					continue
				}
				for _, port := range w.links(t, l) {
					if other, ok := users[port]; ok && other.job != i {
						return fmt.Errorf("port %d of %s carries transfers of two jobs:\n%+v\n%+v", port.Port, w.fabric.Nodes[port.Node].Label(), l, other.line)
					}
					users[port] = user{i, l}
				}
			}
		}
	}
	if len(users) == 0 {
		return errors.New("no transfer was walked")
	}
	return nil
}
