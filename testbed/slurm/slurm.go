// Package slurm runs Slurm as Debian has it, for tests: a controller and a slurmd for each
// node, all on this machine, with files, ports and a munge of their own.
package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Options describe a cluster.
type Options struct {
	Dir      string // of its files; it exists and is empty
	Nodes    []string
	Scripts  string            // directory of prolog.sh, epilog.sh and task_prolog.sh
	Env      []string          // of these scripts
	Topology string            // topology.conf for topology/tree; "" means none
	Conf     map[string]string // further settings
}

// Cluster is a running Slurm.
type Cluster struct {
	dir     string
	spool   string // of the slurmds
	daemons []*exec.Cmd
}

// Available returns an error that names a requirement missing on this machine.
func Available() error {
	for _, name := range []string{"munged", "slurmctld", "slurmd", "sbatch"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w: make deps installs it", err)
		}
	}
	if os.Getuid() != 0 {
		return errors.New("slurmd starts jobs as root only")
	}
	return nil
}

// Start starts a cluster, and waits until its nodes are idle.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	// A slurmstepd has a socket there, whose path, of 107 bytes at most, has the name of the
	// node in it, and that of the step.
	spool, err := os.MkdirTemp("", "slurm")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: o.Dir, spool: spool}
	if err := c.configure(o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	path := func(name string) string { return filepath.Join(c.dir, name) }
	key := bytes.Repeat([]byte("not secret "), 12)
	if err := os.WriteFile(path("munge.key"), key, 0o600); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	lines := [][]string{
		{"munged", "--foreground", "--force", "--num-threads=1", "--key-file=" + path("munge.key"), "--socket=" + path("munge"),
			"--pid-file=" + path("munge.pid"), "--log-file=" + path("munge.log"), "--seed-file=" + path("munge.seed")},
		{"slurmctld", "-D", "-i"},
	}
	for i, n := range o.Nodes {
		lines = append(lines, []string{"slurmd", "-D", "-N", n, "-f", c.nodeConf(i)})
	}
	for _, line := range lines {
		if err := c.run(line); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	for {
		out, err := c.Command(ctx, "sinfo", "-h", "-t", "idle", "-o", "%D")
		if err == nil && strings.TrimSpace(out) == fmt.Sprint(len(o.Nodes)) {
			return c, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for %d idle nodes of Slurm: %w, %q", len(o.Nodes), err, out), c.Close())
		}
	}
}

// configure writes slurm.conf and the scripts.
func (c *Cluster) configure(o Options) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	host, _, _ = strings.Cut(host, ".")
	ports, err := freePorts(1 + len(o.Nodes))
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, `ClusterName=fors
SlurmctldHost=%[2]s(127.0.0.1)
SlurmctldPort=%[3]d
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=%[1]s/munge
CredType=cred/munge
StateSaveLocation=%[1]s/state
SlurmctldPidFile=%[1]s/slurmctld.pid
SlurmdPidFile=%[1]s/slurmd.%%n.pid
SlurmctldLogFile=%[1]s/slurmctld.log
SlurmdLogFile=%[1]s/slurmd.%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=0,sched_interval=1
JobAcctGatherType=jobacct_gather/none
KillWait=1
DebugFlags=NO_CONF_HASH
PrologSlurmctld=%[1]s/prolog.sh
EpilogSlurmctld=%[1]s/epilog.sh
TaskProlog=%[1]s/task_prolog.sh
`, c.dir, host, ports[0])
	if o.Topology != "" {
		fmt.Fprintln(&text, "TopologyPlugin=topology/tree")
		if err := os.WriteFile(filepath.Join(c.dir, "topology.conf"), []byte(o.Topology), 0o644); err != nil {
			return err
		}
	}
	for name, value := range o.Conf {
		fmt.Fprintf(&text, "%s=%s\n", name, value)
	}
	for i, n := range o.Nodes {
		fmt.Fprintf(&text, "NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=1\n", n, host, ports[1+i])
	}
	fmt.Fprintln(&text, "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
	if err := os.WriteFile(c.conf(), []byte(text.String()), 0o644); err != nil {
		return err
	}
	for i := range o.Nodes {
		own := fmt.Sprintf("Include %s\nSlurmdSpoolDir=%s/%d\n", c.conf(), c.spool, i) // %n would have the node's name twice
		if err := os.WriteFile(c.nodeConf(i), []byte(own), 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{"prolog.sh", "epilog.sh", "task_prolog.sh"} {
		script := "#!/bin/sh\nexport SLURM_CONF=" + c.conf() + "\n"
		for _, v := range o.Env {
			script += "export " + v + "\n"
		}
		script += "exec " + filepath.Join(o.Scripts, name) + " 2>>" + filepath.Join(c.dir, "scripts.log") + "\n"
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(script), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) conf() string { return filepath.Join(c.dir, "slurm.conf") }

func (c *Cluster) nodeConf(node int) string {
	return filepath.Join(c.dir, fmt.Sprintf("slurm.%d.conf", node))
}

// freePorts finds unused TCP ports.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// run starts a daemon. The kernel kills it when this process dies.
func (c *Cluster) run(line []string) error {
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+c.conf())
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The death signal comes when the thread that started the child ends.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is ended by Close
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	c.daemons = append(c.daemons, cmd)
	return nil
}

// Command runs one of Slurm's commands and returns its output.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+c.conf())
	cmd.Dir = c.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

// Submit hands a job in and returns its number. Its script is a line of the shell.
func (c *Cluster) Submit(ctx context.Context, line string, args ...string) (string, error) {
	script, err := os.CreateTemp(c.dir, "job-*.sh")
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(script, "#!/bin/sh\n%s\n", line)
	if err := errors.Join(err, script.Close()); err != nil {
		return "", err
	}
	var all []string
	for _, part := range strings.Split(strings.Join(args, "\x00"), "\x00:\x00") { // parts of a heterogeneous job
		if len(all) > 0 {
			all = append(all, ":")
		}
		all = append(append(all, "-o", "/dev/null"), strings.Split(part, "\x00")...)
	}
	out, err := c.Command(ctx, "sbatch", append(append([]string{"--parsable"}, all...), script.Name())...)
	return strings.TrimSpace(out), err
}

// Read returns the content of a file in the cluster's directory, or "".
func (c *Cluster) Read(name string) string {
	data, _ := os.ReadFile(filepath.Join(c.dir, name))
	return string(data)
}

// Close ends the daemons and the running jobs.
func (c *Cluster) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _ = c.Command(ctx, "scancel", "-f", "--user=root") // the daemons end anyway
	until := time.Now().Add(5 * time.Second)
	for time.Now().Before(until) {
		if out, err := c.Command(ctx, "squeue", "-h"); err != nil || strings.TrimSpace(out) == "" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for i := len(c.daemons) - 1; i >= 0; i-- {
		_ = syscall.Kill(-c.daemons[i].Process.Pid, syscall.SIGKILL) // it may have ended
	}
	return os.RemoveAll(c.spool)
}
