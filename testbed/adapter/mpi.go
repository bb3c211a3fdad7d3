package adapter

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

// devices is where UCX looks for the character device of an adapter.
const devices = "/dev/infiniband"

// UCX prepares the machine for programs that use UCX, and returns the variables that
// make it use reliable connections by verbs, and nothing else between processes. UCX
// accepts an adapter whose character device it finds; the library names one that is
// everywhere, but the directory must exist.
//
// A process of UCX has two threads with a lock between them, a spinlock by default. If
// many processes share few processors, the thread that holds it often waits for a
// processor, and the other one spins for as long: with 36 processes on two, this took nearly
// all of the processors' time, connections took more than the 30 s of UCX_UD_TIMEOUT, and
// UCX gave up ("UD endpoint: unhandled timeout error"). With a mutex it sleeps.
func UCX() ([]string, error) {
	if err := os.MkdirAll(devices, 0o755); err != nil {
		return nil, fmt.Errorf("UCX uses adapters only if the directory %s exists: make it as root: %w", devices, err)
	}
	return []string{"UCX_TLS=rc_v,self", "UCX_USE_MT_MUTEX=y"}, nil
}

// OwnAlgorithm lets Open MPI choose the algorithm of MPI_Alltoall.
const OwnAlgorithm = "OMPI_MCA_coll_tuned_use_dynamic_rules=0"

// MPI is a job of unmodified Open MPI over UCX, a rank on each of the first hosts, with
// further variables. Its MPI_Alltoall goes by pairs, which is a linear shift, whatever the
// size, unless OwnAlgorithm is among the variables. When ctx ends, mpirun is asked to end it.
func (a *Fabric) MPI(ctx context.Context, ranks int, env []string, command ...string) (*exec.Cmd, error) {
	ucx, err := UCX()
	if err != nil {
		return nil, err
	}
	args := []string{"--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "--mca", "pml", "ucx",
		"--mca", "osc", "^ucx", "--mca", "btl", "self", "-np", strconv.Itoa(ranks)}
	if !slices.Contains(env, OwnAlgorithm) {
		args = append(args, "--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_alltoall_algorithm", "2")
	}
	for _, e := range slices.Concat(a.Env("Hca%4r"), ucx, env) {
		args = append(args, "-x", e)
	}
	cmd := exec.CommandContext(ctx, "mpirun", append(args, command...)...)
	// Complaints of hwloc, as in a container without /sys, do not belong in the output.
	// Open MPI's sockets need a short path.
	cmd.Env = append(os.Environ(), "TMPDIR="+a.dir, "HWLOC_HIDE_ERRORS=2")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd, nil
}
