package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Squeue looks a job up in Slurm's queue by its unique number, which tasks of an array and
// parts of a heterogeneous job also have.
func Squeue(ctx context.Context, job string) (*Queued, error) {
	cmd := exec.CommandContext(ctx, "squeue", "-h", "-j", job, "-o", "%A|%T|%e|%N")
	cmd.Env = append(os.Environ(), "SLURM_TIME_FORMAT=%s")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		text := strings.TrimSpace(string(exit.Stderr))
		if strings.Contains(text, "Invalid job id") {
			return nil, nil // it ended some time ago
		}
		err = fmt.Errorf("%w: %.200s", err, text[strings.LastIndexByte(text, '\n')+1:])
	}
	if err != nil {
		return nil, fmt.Errorf("squeue: %w", err)
	}
	return readQueue(string(out), job)
}

// readQueue finds a job in the output of squeue.
func readQueue(out, job string) (*Queued, error) {
	for line := range strings.Lines(out) {
		words := strings.SplitN(strings.TrimSpace(line), "|", 4)
		if len(words) != 4 || words[0] != job {
			continue
		}
		switch words[1] {
		case "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT":
		default:
			return nil, nil
		}
		q := &Queued{Nodes: words[3]}
		if seconds, err := strconv.ParseInt(words[2], 10, 64); err == nil {
			q.End = time.Unix(seconds, 0)
		} else if words[2] != "NONE" && words[2] != "UNLIMITED" {
			return nil, fmt.Errorf("squeue: %q is not the end of a job in seconds since 1970", words[2])
		}
		return q, nil
	}
	return nil, nil
}
