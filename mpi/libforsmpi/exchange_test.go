package libforsmpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

var forsd = sync.OnceValues(func() (string, error) { return e2e.Build(context.Background(), scratch) })

// side is the number of leaves, of spines and of hosts of a leaf where ranks exchange while the
// fabric changes; FORS_LONG=1 has more.
func side() int {
	if os.Getenv("FORS_LONG") != "" {
		return 6
	}
	return 4
}

// site is a simulated fabric under a real OpenSM and forsd.
type site struct {
	*testing.T
	*e2e.Site
	ctx   context.Context
	table string // where ranks find forsd
}

// up brings up a full fat tree of n leaves and n spines at LMC 3, and waits until it is at
// rest and checked.
func up(t *testing.T, n int) (*site, *api.Status, *e2e.Sight) {
	t.Helper()
	const lmc = 3
	return upOn(t, fabgen.Generate(fabgen.Spec{Spines: n, Leaves: n, LMC: lmc}), lmc)
}

// upOn does the same on any fabric.
func upOn(t *testing.T, fabric *topology.Fabric, lmc uint8) (*site, *api.Status, *e2e.Sight) {
	t.Helper()
	x := bare(t, e2e.Options{Fabric: fabric, LMC: lmc})
	x.ok(x.Start(x.ctx))
	st, sight := x.rest(nil)
	return x, st, sight
}

// bare is a site on which nothing is started.
func bare(t *testing.T, o e2e.Options) *site {
	t.Helper()
	if err := ibsim.Available(); err != nil {
		t.Skip(err)
	}
	var err error
	if o.Forsd, err = forsd(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*patience, errors.New("the test takes too long"))
	t.Cleanup(cancel)
	o.Config = "damping: {flaps: 1000}\ndrains: {grace: 1s}\n"
	s, err := e2e.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &site{t, s, ctx, "unix:" + s.Socket()}
}

// rest waits until forsd is at rest on a fabric that want accepts, and checks it.
func (x *site) rest(want func(*api.Topology) error) (*api.Status, *e2e.Sight) {
	x.Helper()
	st, err := x.Settled(x.ctx, want)
	if err != nil {
		x.Fatal(err)
	}
	sight, err := x.Check(x.ctx)
	if err != nil {
		x.Fatal(err)
	}
	return st, sight
}

// pull takes the cable of a leaf's lane away, put gives it back. Both wait until forsd is at
// rest on the changed fabric.
func (x *site) pull(c cable) (*api.Status, *e2e.Sight) {
	x.Helper()
	if err := x.Sim.Unlink(x.ctx, fmt.Sprintf("Leaf%03d", c.leaf), x.port(c.lane)); err != nil {
		x.Fatal(err)
	}
	return x.rest(e2e.Cable(c.leaf, c.lane, "missing"))
}

func (x *site) put(c cable) (*api.Status, *e2e.Sight) {
	x.Helper()
	if err := x.Sim.Relink(x.ctx, fmt.Sprintf("Leaf%03d", c.leaf), x.port(c.lane)); err != nil {
		x.Fatal(err)
	}
	return x.rest(e2e.Cable(c.leaf, c.lane, "full"))
}

// port is a leaf's port of a lane, of three levels of a plane: host ports come first, as
// many on a full leaf.
func (x *site) port(lane int) int {
	top, err := x.Client.Topology(x.ctx)
	if err != nil {
		x.Fatal(err)
	}
	return len(top.Leaves[0].Cables) + 1 + lane
}

// exchanges runs random exchanges by the plan of an epoch. None may differ from MPI's
// own; the log of the ranks, walked through the tables read back, must have no link
// with two transfers in a phase; and the output must be the same without the shim,
// which is tried once.
func (x *site) exchanges(program, shim string, ranks, seed, n int, epoch uint64, sight *e2e.Sight, env ...string) {
	x.Helper()
	log := x.TempDir()
	plain := job{ranks: ranks, mca: linear, command: []string{program, fmt.Sprint(seed), fmt.Sprint(n)}}
	x.checked(plain, plain.with(shim, x.table, append(env, "FORS_LOG="+log)...), log, n, epoch, sight)
}

// byDefault does the same with the shim's defaults, for any program of n exchanges under
// one of the MPIs: it follows the plan for base LIDs, and the walk is by base LIDs.
func (x *site) byDefault(mpi, shim string, n int, sight *e2e.Sight, command ...string) {
	x.Helper()
	base, err := x.Client.BaseTable(x.ctx)
	if err != nil {
		x.Fatal(err)
	}
	log := x.TempDir()
	plain := job{mpi: mpi, ranks: side() * side(), mca: linear, command: command}
	x.checked(plain, plain.alone(shim, x.table, "FORS_LOG="+log), log, n, base.Epoch(), sight)
	toBaseLIDs(x, readLogs(x, log, plain.ranks), sight)
}

// toBaseLIDs fails if a transfer between servers is to another LID than a base LID.
func toBaseLIDs(t testing.TB, logs [][]line, sight *e2e.Sight) {
	t.Helper()
	own := map[ib.GUID]ib.LID{}
	for i := range sight.Tree.Hosts {
		own[sight.Tree.Hosts[i].GUID] = sight.Tree.Hosts[i].LID
	}
	for _, log := range logs {
		for _, l := range log {
			if l.what == "send" && l.srcGUID != l.dstGUID && l.dlid != own[l.dstGUID] {
				t.Fatalf("%+v: the base LID is %d", l, own[l.dstGUID])
			}
		}
	}
}

// checked runs a job with the shim, of n exchanges, and checks its output and logs.
func (x *site) checked(plain, checked job, log string, n int, epoch uint64, sight *e2e.Sight) {
	x.Helper()
	ranks := plain.ranks
	if plain.mpi == "" {
		checked.command = append(checked.command, "gaps")
	}
	out, stderr := checked.run(x)
	x.Log(strings.TrimSpace(out))
	if !strings.HasSuffix(out, "differences: 0\n") && !strings.HasSuffix(out, "lost 0, doubled 0, damaged 0\n") || stderr != "" {
		x.Errorf("output %q, errors %q", out, stderr)
	}
	if plain.command[1] == "1" {
		if without, _ := plain.run(x); without != out {
			x.Errorf("with the shim it prints %q, without %q", out, without)
		}
	}
	logs := readLogs(x, log, ranks)
	epochs := checkEpochs(x, logs)
	checkPairs(x, logs)
	walked := checkLinks(x, logs, epoch, sight.Tree.Fabric, sight.Tables)
	waits := checkOrder(x, logs, epoch, sight.Tree.Fabric, sight.Tables)
	x.Logf("%d exchanges by epoch %d, %d transfers between servers, %d waits", len(epochs[epoch]), epoch, walked, waits)
	if len(epochs) != 1 || len(epochs[epoch]) < n*3/4 || walked < n*ranks {
		x.Errorf("of %d exchanges, %d were by epoch %d with %d transfers between servers; epochs %v", n, len(epochs[epoch]), epoch, walked, len(epochs))
	}
}

// TestExchanges compares the shim with MPI's own functions: for a rank on each server without
// a dead cable, with one, and with three, by the plan for base LIDs and by that for lanes; for
// a job on half of them; and on those of a larger tree, in another order.
func TestExchanges(t *testing.T) {
	shim := needs(t)
	program := compile(t, "mpicc", "testdata/exchanges.c")
	n, servers := 30, side()*side()
	if os.Getenv("FORS_LONG") != "" {
		n = 600
	}
	t.Run("all", func(t *testing.T) {
		x, _, sight := up(t, side())
		x.byDefault("", shim, n, sight, program, "1", fmt.Sprint(n))
		st, sight := x.pull(cable{0, 0})
		x.byDefault("", shim, n/3, sight, program, "2", fmt.Sprint(n/3))
		x.exchanges(program, shim, servers, 3, n/3, st.Epoch, sight)
		x.pull(cable{0, 3})
		_, sight = x.pull(cable{3, 1})
		x.byDefault("", shim, n/3, sight, program, "4", fmt.Sprint(n/3))
		// Not the same program: MPICH 4.0.2 by itself fails on MPI_IN_PLACE of resized types.
		x.byDefault(mpich, builtFor(t, mpich), 4, sight, compile(t, "mpicc"+mpich, "../../examples/eventbuilder.c"), "-n", "2", "-b", "3000")

		// A job on every other server has a plan of its own.
		var hosts []string
		for r := range servers / 2 {
			hosts = append(hosts, fmt.Sprintf("Hca%04d", (2*r+8)%servers))
		}
		made, err := x.Client.CreateJob(x.ctx, api.JobRequest{Name: "half", Hosts: hosts})
		if err != nil {
			t.Fatal(err)
		}
		x.table += "?job=half"
		x.exchanges(program, shim, servers/2, 6, n/4, made.Epoch, sight, "FORS_SERVER_MAP="+write(t, "servers", []byte(strings.Join(hosts, "\n"))))
	})
	t.Run("others", func(t *testing.T) {
		larger := side() * 4 / 3
		x, st, sight := up(t, larger)
		var text strings.Builder
		text.WriteString("# every seventh server\n\n")
		for r := range larger * larger {
			fmt.Fprintf(&text, "  Hca%04d\n", (7*r+3)%(larger*larger))
		}
		x.exchanges(program, shim, larger*larger, 7, n/2, st.Epoch, sight, "FORS_SERVER_MAP="+write(t, "servers", []byte(text.String())))
	})
}

// TestEpochChange pulls a cable while event builders run, kills forsd, starts it
// again, and puts the cable back. No fragment is lost, doubled or damaged; all ranks
// use the same epoch in an exchange; exchanges that begin once the new plan is in
// force use it; and every exchange fits the tables that its plan was made for.
func TestEpochChange(t *testing.T) {
	shim := needs(t)
	program := compile(t, "mpicc", "../../examples/eventbuilder.c")
	x, before, sight := up(t, side())
	x.changes(shim, program, before, sight, cable{0, 2}, side()*side(), "-b", "2048")
}

// TestThreeLevels does the same on a fat tree of three levels, whose tables follow from the
// plan: for a moment the switches have tables that the plan in force was not made for.
// Nothing is lost then either.
func TestThreeLevels(t *testing.T) {
	shim := needs(t)
	program := compile(t, "mpicc", "../../examples/eventbuilder.c")
	const lmc = 2
	n := side() / 2
	x, _, sight := upOn(t, fabgen.GenerateTree(fabgen.TreeSpec{Pods: 4, Leaves: n, Mids: n, Tops: n, Hosts: n, LMC: lmc}), lmc)
	// A cable to a top is dead already: the tree needs more than its base LIDs.
	if err := x.Sim.Unlink(x.ctx, "Mid004", n+1); err != nil {
		t.Fatal(err)
	}
	_, damaged := x.rest(func(top *api.Topology) error {
		if top.Mids[4].Cables[0] != "missing" {
			return errors.New("the cable to the top is there")
		}
		return nil
	})
	if damaged.Pods == nil || sight.Pods == nil {
		t.Fatal("not a fat tree of three levels")
	}
	before, err := x.Client.Status(x.ctx)
	if err != nil {
		t.Fatal(err)
	}
	x.changes(shim, program, before, damaged, cable{1, n - 1}, 4*n*n, "-b", "2048")
}

// changes pulls a cable while event builders run on all servers, kills forsd, starts it
// again, and puts the cable back.
func (x *site) changes(shim, program string, before *api.Status, sight *e2e.Sight, pulled cable, servers int, arguments ...string) {
	x.Helper()
	t, log := x.T, x.TempDir()
	builders, err := job{ranks: servers, command: append([]string{program}, arguments...)}.with(shim, x.table, "FORS_LOG="+log).start(x.ctx)
	if err != nil {
		t.Fatal(err)
	}
	x.grows(log, before.Epoch)
	lost, without := x.pull(pulled)
	lostAt := now()
	for !x.growsUnless(log, lost.Epoch, x.superseded(lost.Epoch)) { // on three levels a better plan may follow
		lost, without = x.rest(e2e.Cable(pulled.leaf, pulled.lane, "missing"))
		lostAt = now()
	}
	if err := x.KillForsd(x.ctx); err != nil {
		t.Fatal(err)
	}
	x.Forsd = nil
	x.grows(log, lost.Epoch)
	if err := x.StartForsd(); err != nil {
		t.Fatal(err)
	}
	x.rest(e2e.Cable(pulled.leaf, pulled.lane, "missing"))
	back, again := x.put(pulled)
	for !x.growsUnless(log, back.Epoch, x.superseded(back.Epoch)) {
		back, again = x.rest(e2e.Cable(pulled.leaf, pulled.lane, "full"))
	}
	if err := builders.interrupt(); err != nil {
		t.Fatal(err)
	}
	out, stderr := builders.wait(t)
	t.Logf("%s\nepochs %d, %d, %d", strings.TrimSpace(out), before.Epoch, lost.Epoch, back.Epoch)
	stderr = strings.ReplaceAll(stderr, "mpirun: Forwarding signal 10 to job\n", "")
	if !strings.HasSuffix(out, "lost 0, doubled 0, damaged 0\n") || stderr != "" {
		t.Errorf("output %q, errors %q", out, stderr)
	}

	logs := readLogs(t, log, servers)
	epochs := checkEpochs(t, logs)
	checkPairs(t, logs)
	for epoch, sight := range map[uint64]*e2e.Sight{before.Epoch: sight, lost.Epoch: without, back.Epoch: again} {
		if walked := checkLinks(t, logs, epoch, sight.Tree.Fabric, sight.Tables); walked == 0 {
			t.Errorf("no transfer was by epoch %d", epoch)
		}
	}
	if len(epochs) < 3 {
		t.Errorf("exchanges by epochs: %v", epochs)
	}
	for r, log := range logs {
		x.inOrder(r, log, lost.Epoch, lostAt)
	}
}

// inOrder fails if a rank goes back to an older epoch, or uses one in an
// exchange that begins after a newer one was in force and at rest.
func (x *site) inOrder(rank int, log []line, epoch uint64, since int64) {
	x.Helper()
	last := uint64(0)
	for _, l := range log {
		if l.what != "begin" {
			continue
		}
		if l.epoch < last {
			x.Fatalf("rank %d goes back from epoch %d to %d", rank, last, l.epoch)
		}
		last = l.epoch
		if l.time > since && l.epoch < epoch {
			x.Fatalf("rank %d begins exchange %d by epoch %d after epoch %d was in force", rank, l.exchange, l.epoch, epoch)
		}
	}
}

// superseded reports whether an epoch has been replaced by a later one.
func (x *site) superseded(epoch uint64) func() bool {
	return func() bool {
		st, err := x.Client.Status(x.ctx)
		return err == nil && st.Epoch > epoch
	}
}

// grows waits until rank 0's log shows further exchanges by an epoch, begun and
// ended.
func (x *site) grows(dir string, epoch uint64) {
	x.Helper()
	x.growsUnless(dir, epoch, func() bool { return false })
}

// growsUnless is grows, and returns false as soon as over holds.
func (x *site) growsUnless(dir string, epoch uint64, over func() bool) (grown bool) {
	x.Helper()
	first := -1
	err := x.Until(x.ctx, func() error {
		data, err := os.ReadFile(filepath.Join(dir, "rank-0.csv"))
		if err != nil {
			return err
		}
		n := 0
		for l := range strings.Lines(string(data)) {
			if f := strings.Split(l, ","); len(f) > 4 && f[2] == fmt.Sprint(epoch) && f[4] == "end" {
				n++
			}
		}
		if first < 0 {
			first = n
		}
		if grown = n >= first+8; !grown && !over() {
			return fmt.Errorf("%d exchanges by epoch %d", n-first, epoch)
		}
		return nil
	})
	if err != nil {
		x.Fatal(err)
	}
	return grown
}
