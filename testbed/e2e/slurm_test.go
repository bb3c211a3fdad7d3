package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/slurm"
)

// batch is a site with a Slurm whose nodes are the fabric's hosts.
type batch struct {
	*test
	*slurm.Cluster
	forsctl string
}

// The names of nodes that Slurm knows besides the fabric's: one that the fabric does not have,
// and two hosts whose names are longer than their descriptions can be.
const foreign = "nobody"

var longNames = []string{"a" + strings.Repeat("-long", 12) + "-01", "b" + strings.Repeat("-long", 12) + "-02"}

func startBatch(t *testing.T) *batch {
	t.Helper()
	if err := slurm.Available(); err != nil {
		t.Skip(err)
	}
	o := small()
	nodes := []string{foreign}
	for i := range o.Fabric.Nodes {
		n := &o.Fabric.Nodes[i]
		switch {
		case n.Name == "Hca0014" || n.Name == "Hca0015":
			node := longNames[len(nodes)%2]
			n.Name = node[:63]
			nodes = append(nodes, node)
		case strings.HasPrefix(n.Name, "Hca"):
			nodes = append(nodes, n.Name)
		}
	}
	x, _ := up(t, 5*time.Minute, o)
	bin, dir := t.TempDir(), t.TempDir()
	ctl, err := built.Program(x.ctx, bin, "cmd/forsctl")
	x.ok(err)
	scripts, err := filepath.Abs("../../configs/slurm")
	x.ok(err)
	c, err := slurm.Start(x.ctx, slurm.Options{Dir: dir, Nodes: nodes, Scripts: scripts,
		Env: []string{"PATH=" + filepath.Dir(ctl) + ":$PATH", "FORSD_SERVER=" + x.Socket()}})
	x.ok(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the scripts' messages:\n%s%s", c.Read("scripts.log"), c.Read("srun.log"))
			t.Logf("slurmctld's log:\n%s", c.Read("slurmctld.log"))
		}
		_ = c.Close()
	})
	return &batch{x, c, ctl}
}

// holds waits until a condition holds.
func (b *batch) holds(what string, f func() bool) {
	b.Helper()
	ctx, cancel := context.WithTimeoutCause(b.ctx, 4*time.Minute, fmt.Errorf("it did not come within 4 minutes")) // Slurm keeps a requeued job for two
	defer cancel()
	for !f() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			b.Fatalf("%s: %v", what, context.Cause(ctx))
		}
	}
}

// task is the script of a Slurm job that waits: each task writes down its node, its epoch of
// the script's start, and the job that it is told of.
const task = `srun %s sh -c 'echo $SLURMD_NODENAME "$FORSD_JOB" >>` + "%s" + `; sleep 600' 2>>srun.log`

// submit submits a job that writes to a file what its tasks are told, and returns its number.
func (b *batch) submit(note, srun string, args ...string) string {
	b.Helper()
	id, err := b.Submit(b.ctx, fmt.Sprintf(task, srun, note), args...)
	b.ok(err)
	return id
}

// notes waits for that many tasks and returns which job each node was told of, by the name
// that its host has in the fabric.
func (b *batch) notes(file string, tasks int) map[string]string {
	b.Helper()
	told := map[string]string{}
	b.holds(fmt.Sprintf("%d tasks note in %s", tasks, file), func() bool {
		for line := range strings.Lines(b.Read(file)) {
			node, job, _ := strings.Cut(strings.TrimSpace(line), " ")
			told[node[:min(len(node), 63)]] = job
		}
		return len(told) == tasks
	})
	return told
}

// planned waits for forsd's job of a Slurm job.
func (b *batch) planned(id string, hosts int) *api.Job {
	b.Helper()
	var job *api.Job
	b.holds("forsd has a job for "+id, func() bool {
		var err error
		job, err = b.Client.Job(b.ctx, "slurm-"+id)
		return err == nil
	})
	if len(job.Hosts) != hosts || job.Servers != hosts {
		b.Errorf("%s has %d hosts, and a plan for %d, not %d", job, len(job.Hosts), job.Servers, hosts)
	}
	return job
}

// gone waits until forsd has no job for a Slurm job.
func (b *batch) gone(id string) {
	b.Helper()
	b.holds("forsd ends the job of "+id, func() bool {
		_, err := b.Client.Job(b.ctx, "slurm-"+id)
		return err != nil
	})
}

// state is the state of a Slurm job, and the reason.
func (b *batch) state(id string) string {
	out, _ := b.Command(b.ctx, "squeue", "-h", "-j", id, "-o", "%T %r") // it fails for a job that has ended
	return strings.TrimSpace(out)
}

func (b *batch) cancel(ids ...string) {
	b.Helper()
	for _, id := range ids {
		_, err := b.Command(b.ctx, "scancel", id)
		b.ok(err)
	}
}

// all fails unless all tasks were told of the job.
func (b *batch) all(told map[string]string, job string) {
	b.Helper()
	for node, got := range told {
		if got != job {
			b.Errorf("the task on %s is told of the job %q, not %q", node, got, job)
		}
	}
}

// TestSlurm takes jobs of a real Slurm through their events.
func TestSlurm(t *testing.T) {
	t.Parallel()
	b := startBatch(t)
	b.ends()
	b.parts()
	b.shim()
	b.names()
	b.shards()
	b.without()
}

// shards plans all failures of one part and of two in a job array, of which one task is killed
// and repeated alone, and in one process: the same bytes.
func (b *batch) shards() {
	b.Helper()
	dir := b.TempDir()
	fabric := filepath.Join(dir, "fabric")
	b.ok(os.WriteFile(fabric, fabgen.Ibnetdiscover(fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})), 0o644))
	line := func(keep string) string {
		return fmt.Sprintf("%s acceptance %s --failures 2 --keep %s", b.forsctl, fabric, filepath.Join(dir, keep))
	}
	out, err := exec.CommandContext(b.ctx, "sh", "-c", line("one")).CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	shard := " --shard $SLURM_ARRAY_TASK_ID/4"
	array, err := b.Submit(b.ctx, "[ $SLURM_ARRAY_TASK_ID != 3 ] || sleep 600\nexec "+line("four")+shard, "--array=1-4")
	b.ok(err)
	there := func(name string) bool { _, err := os.Stat(filepath.Join(dir, "four", name)); return err == nil }
	b.holds("three tasks end", func() bool {
		return there("failures-0001-of-0004.jsonl") && there("failures-0002-of-0004.jsonl") && there("failures-0004-of-0004.jsonl") && b.state(array+"_3") == "RUNNING None"
	})
	b.cancel(array + "_3")
	if there("failures.jsonl") {
		b.Error("all failures are there without a task")
	}
	_, err = b.Submit(b.ctx, "exec "+line("four")+shard, "--array=3")
	b.ok(err)
	b.holds("the task that is repeated merges the failures", func() bool { return there("failures.jsonl") })
	one, err := os.ReadFile(filepath.Join(dir, "one", "failures.jsonl"))
	b.ok(err)
	four, err := os.ReadFile(filepath.Join(dir, "four", "failures.jsonl"))
	b.ok(err)
	if !bytes.Equal(one, four) || bytes.Count(one, []byte("\n")) != 1+19+147 {
		b.Errorf("one process has\n%s\nand a job array\n%s", one, four)
	}
}

// shim has tasks load the library that FORS_SHIM names, and no others.
func (b *batch) shim() {
	b.Helper()
	for _, library := range []string{"libm.so.6", ""} {
		note := "shim" + library
		id, err := b.Submit(b.ctx, fmt.Sprintf(`FORS_SHIM=%s srun sh -c 'echo $SLURMD_NODENAME "$LD_PRELOAD" >>%s' 2>>srun.log`, library, note), "-N2", "-t", "5", "-w", "Hca[0000-0001]")
		b.ok(err)
		b.all(b.notes(note, 2), library)
		b.gone(id)
	}
}

// ends starts jobs, and ends, cancels and requeues them.
func (b *batch) ends() {
	b.Helper()
	short, err := b.Submit(b.ctx, "sleep 1", "-N3", "-t", "10", "-w", "Hca[0000-0002]")
	b.ok(err)
	b.planned(short, 3)
	one := b.submit("one", "", "-N1", "-w", "Hca0013")
	three := b.submit("three", "", "-N4", "-t", "3-0", "-w", "Hca[0003-0006]")
	job := b.planned(three, 4)
	if left := time.Until(job.Expires); left < 72*time.Hour || left > 74*time.Hour {
		b.Errorf("the lease of a job of three days ends in %s", left)
	}
	b.all(b.notes("three", 4), "slurm-"+three)
	b.all(b.notes("one", 1), "")
	b.gone(short)

	_, err = b.Command(b.ctx, "scontrol", "requeue", three)
	b.ok(err)
	b.gone(three)
	// slurmd revokes what was issued up to the second in which the job was killed; Slurm
	// itself waits for two minutes.
	time.Sleep(3 * time.Second)
	b.holds("Slurm starts the job again", func() bool {
		if b.state(three) == "PENDING BeginTime" { // it would wait two minutes
			_, err := b.Command(b.ctx, "scontrol", "update", "jobid="+three, "starttime=now")
			b.ok(err)
			time.Sleep(time.Second) // to be considered by the scheduler
		}
		return strings.HasPrefix(b.state(three), "RUNNING")
	})
	again := b.planned(three, 4)
	if again.ID == job.ID {
		b.Errorf("the requeued job has %s still", job)
	}
	b.cancel(three, one)
	b.gone(three)
}

// parts starts an array and a heterogeneous job.
func (b *batch) parts() {
	b.Helper()
	array := b.submit("array", "", "-N2", "-t", "5", "--array=1-3")
	told := b.notes("array", 6)
	jobs, err := b.Client.Jobs(b.ctx)
	b.ok(err)
	if len(jobs) != 3 {
		b.Errorf("an array of 3 tasks has %d jobs of forsd", len(jobs))
	}
	for _, j := range jobs {
		job := b.planned(strings.TrimPrefix(j.Name, "slurm-"), 2)
		for _, h := range job.Hosts {
			if told[h.Name] != j.Name {
				b.Errorf("%s of %s is told of the job %q", h.Name, j.Name, told[h.Name])
			}
		}
	}
	b.cancel(array)
	b.holds("the array's jobs end", func() bool { jobs, err := b.Client.Jobs(b.ctx); return err == nil && len(jobs) == 0 })

	het := b.submit("het", "--het-group=0-2", "-N2", "-t", "5", "-w", "Hca[0000-0001]", ":", "-N3", "-w", "Hca[0004-0006]", ":", "-N1", "-w", "Hca0009")
	told = b.notes("het", 6)
	second := ""
	for node, job := range told {
		switch {
		case node == "Hca0009" && job != "":
			b.Errorf("the task of the part on one node is told of the job %q", job)
		case node == "Hca0000" && job != "slurm-"+het:
			b.Errorf("the first part is told of the job %q", job)
		case node == "Hca0004":
			second = strings.TrimPrefix(job, "slurm-")
		}
	}
	if second == "" || second == het || told["Hca0005"] != told["Hca0004"] || told["Hca0001"] != told["Hca0000"] {
		b.Errorf("the parts are told of the jobs %q", told)
	}
	b.planned(het, 2)
	b.planned(second, 3)
	b.cancel(het)
	b.gone(het)
	b.gone(second)
}

// names starts jobs on nodes with names of 64 characters, and on one that the fabric does not
// have.
func (b *batch) names() {
	b.Helper()
	id := b.submit("long", "", "-N2", "-t", "5", "-w", strings.Join(longNames, ","))
	b.all(b.notes("long", 2), b.planned(id, 2).Name)
	b.cancel(id)
	b.gone(id)

	id = b.submit("names", "", "-N5", "-t", "5", "-w", strings.Join(append(slices.Clone(longNames), foreign, "Hca0002", "Hca0003"), ","))
	job := b.planned(id, 4)
	b.holds("the prolog names the unknown host", func() bool { return strings.Contains(b.Read("scripts.log"), "does not have "+foreign) })
	b.all(b.notes("names", 5), job.Name)
	b.cancel(id)
	b.gone(id)
}

// without starts jobs while forsd hangs, and while it is down.
func (b *batch) without() {
	b.Helper()
	b.ok(syscall.Kill(b.Forsd.PID(), syscall.SIGSTOP))
	began := time.Now()
	id := b.submit("hangs", "", "-N2", "-t", "5", "-w", "Hca[0000-0001]")
	b.holds("a job starts while forsd hangs", func() bool { return strings.HasPrefix(b.state(id), "RUNNING") })
	b.Logf("a job started %.1f s after it was submitted, while forsd hangs", time.Since(began).Seconds())
	if took := time.Since(began); took > 10*time.Second && long {
		b.Errorf("a job starts %s after it was submitted", took)
	}
	b.ok(syscall.Kill(b.Forsd.PID(), syscall.SIGCONT))
	b.planned(id, 2)
	b.cancel(id)
	b.gone(id)

	b.ok(b.KillForsd(b.ctx))
	id = b.submit("away", "", "-N3", "-t", "5", "-w", "Hca[0000-0002]")
	b.all(b.notes("away", 3), "")
	brief := b.submit("brief", "", "-N2", "-t", "5", "-w", "Hca[0004-0005]")
	b.notes("brief", 2)
	b.cancel(brief)
	b.holds("Slurm ends a job while forsd is away", func() bool { return b.state(brief) == "" }) // after its epilog
	b.ok(b.StartForsd())
	b.planned(id, 3)
	if _, err := b.Client.Job(b.ctx, "slurm-"+brief); err == nil {
		b.Error("a Slurm job that has ended gets a plan")
	}
	b.cancel(id)
	b.gone(id)
}
