// Package worker plans for API clients (what-if questions, new jobs, lanes of exchanges between
// GPUs, measurements) in separate processes: the program starts itself again, passes a request with
// everything that a plan depends on, and reads the answer. The process is limited in time and
// memory, has lower priority than the program's own threads, and ends with the client.
package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
)

// title is the name of worker processes in process lists.
const title = "forsd-worker"

// Limits are the limits on requests.
type Limits struct {
	Number  int           // concurrent processes
	Waiting int           // waiting requests; others are refused immediately
	Brief   time.Duration // how long a waiting request is tried in an additional process
	Time    time.Duration // for a request, including the wait for its turn
	Memory  uint64        // bytes per process
	Nice    int           // the nice value of a process, 0 to 19
	Rests   bool          // a process does not follow another before as long as that took, up to longestRest
}

// Defaults returns limits that leave a core to the program itself.
func Defaults() Limits {
	return Limits{Number: min(2, max(1, runtime.NumCPU()-1)), Waiting: 16, Brief: time.Second, Time: time.Minute, Memory: 2 << 30, Nice: niceOrders}
}

// Errors of Run that do not come from the task.
var (
	ErrBusy   = errors.New("too many requests wait for their turn: ask again later")
	ErrTime   = errors.New("its time is up")
	ErrMemory = errors.New("it takes more memory than a request may have")
)

// refusal converts an error of Run to an error of the API.
func refusal(err error) error {
	switch {
	case errors.Is(err, ErrBusy):
		return api.Busy("%v", ErrBusy)
	case errors.Is(err, ErrTime), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return api.Refused("planning did not end in time (%v): ask for less, or use forsctl", err)
	case errors.Is(err, ErrMemory):
		return api.Refused("planning takes more memory than a request may have: ask for less, or use forsctl")
	}
	return err
}

// Pool runs tasks within limits.
type Pool struct {
	limits    Limits
	turns     chan struct{}
	shortSlot chan struct{} // the turn of the additional process
	waiting   atomic.Int64
	inside    atomic.Int64 // requests after Enter
}

// NewPool makes a pool. The program's main function must begin with Main.
func NewPool(l Limits) *Pool {
	return &Pool{limits: l, turns: make(chan struct{}, l.Number), shortSlot: make(chan struct{}, min(1, l.Brief))}
}

// Pools has separate pools for different kinds of requests, so that none waits for another.
type Pools struct {
	Orders    *Pool // for changes
	Operators *Pool // for operators' questions
	Others    *Pool // for all other questions
	Times     *Pool // for times of exchanges, of which few wait
}

// NewPools makes pools with one process each, and an additional one for short requests.
func NewPools() Pools {
	l := Defaults()
	l.Number = 1
	questions := l
	questions.Nice = niceQuestions
	others := questions
	others.Rests = true
	times := others
	times.Waiting = 2
	return Pools{NewPool(l), NewPool(questions), NewPool(others), NewPool(times)}
}

// Questions returns the pool for a question by the caller.
func (p *Pools) Questions(ctx context.Context) *Pool {
	if c := access.CallerOf(ctx); c != nil && c.Role < api.Operator {
		return p.Others
	}
	return p.Operators
}

// Enter admits as many callers as can run or wait, so that no further question is prepared for
// nothing. A caller leaves when it has its answer.
func (p *Pool) Enter() (leave func(), err error) {
	leave = func() { p.inside.Add(-1) }
	if p.inside.Add(1) > int64(cap(p.turns)+p.limits.Waiting) {
		leave()
		return nil, refusal(ErrBusy)
	}
	return leave, nil
}

// outcome is the header of a process's answer.
type outcome struct {
	Refusal *api.Error
	Late    bool   // the deadline passed without an answer
	Text    string // any other error
}

// error returns what the task returned.
func (o *outcome) error() error {
	switch {
	case o.Refusal != nil:
		return o.Refusal
	case o.Late:
		return ErrTime
	case o.Text != "":
		return errors.New(o.Text)
	}
	return nil
}

// Run runs a task in a process, with a request, and sets the answer. It returns the errors of
// the task, unchanged if they are the API's, or one of the errors above. It returns when the
// process has ended. If ctx ends, this is immediate.
func (p *Pool) Run(ctx context.Context, task string, request, answer any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limits.Time, ErrTime)
	defer cancel()
	select {
	case p.turns <- struct{}{}:
	default:
		if err := p.wait(ctx, task, request, answer); !errors.Is(err, errAgain) {
			return err
		}
	}
	defer p.rest(p.turns, time.Now())
	return p.process(ctx, task, request, answer, nil)
}

// rest gives a turn to the next request, after a rest if the pool has one.
func (p *Pool) rest(turns <-chan struct{}, began time.Time) {
	if !p.limits.Rests {
		<-turns
		return
	}
	time.AfterFunc(min(time.Since(began), longestRest), func() { <-turns })
}

// longestRest is the longest rest of a turn.
const longestRest = time.Second

// errAgain means that a request now has a turn, and must run from the beginning.
var errAgain = errors.New("it takes longer than others should wait")

// wait waits for a turn, reported by errAgain. If long requests have all turns, short ones
// do not wait for them: each is tried briefly in an additional process, and continues to
// wait if that is not enough.
func (p *Pool) wait(ctx context.Context, task string, request, answer any) error {
	defer p.waiting.Add(-1)
	if p.waiting.Add(1) > int64(p.limits.Waiting) {
		return ErrBusy
	}
	select {
	case p.turns <- struct{}{}:
		return errAgain
	case p.shortSlot <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := p.try(ctx, task, request, answer); !errors.Is(err, errAgain) {
		return err
	}
	select {
	case p.turns <- struct{}{}:
		return errAgain
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try runs a task for a short time.
func (p *Pool) try(ctx context.Context, task string, request, answer any) error {
	defer p.rest(p.shortSlot, time.Now())
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	timer := time.AfterFunc(p.limits.Brief, func() { end(errAgain) })
	defer timer.Stop()
	return p.process(ctx, task, request, answer, timer)
}

// process runs a task in a new process. An answer that comes stops the timer, if there is one
// that has not ended the task by then.
func (p *Pool) process(ctx context.Context, task string, request, answer any, timer *time.Timer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// This is the running program, even if its file was replaced.
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	end, _ := ctx.Deadline()
	cmd.Args = []string{title, task, strconv.FormatUint(p.limits.Memory, 10), forTask(time.Until(end)).String(), strconv.Itoa(p.limits.Nice)}
	cmd.Env = []string{"GOTRACEBACK=single"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a separate group, because the priority is set for the group
	var last stderrTail
	cmd.Stderr = &last
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	parentPipe, held, err := os.Pipe()
	if err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	defer held.Close() // closing it ends the process, however this process ends
	cmd.ExtraFiles = []*os.File{parentPipe}
	err = cmd.Start()
	_ = parentPipe.Close()
	if err != nil {
		return cmp.Or(context.Cause(ctx), fmt.Errorf("start a process for task %s: %w", task, err))
	}
	sent := make(chan error, 1)
	go func() { sent <- errors.Join(gob.NewEncoder(in).Encode(request), in.Close()) }()
	from := gob.NewDecoder(out)
	var o outcome
	err = from.Decode(&o)
	heard := err == nil
	if heard {
		if err = o.error(); err == nil && timer != nil && !timer.Stop() {
			err = errAgain
		} else if err == nil {
			err = from.Decode(answer)
		}
	}
	interrupted := context.Cause(ctx)
	if err != nil {
		cancel() // it may still be writing
	}
	ended := cmd.Wait()
	notSent := <-sent
	switch {
	case heard && (err != nil || ended == nil):
		return err
	case last.outOfMemory():
		return ErrMemory
	case interrupted != nil:
		return interrupted
	}
	return fmt.Errorf("task %s: %w: %s", task, errors.Join(err, notSent, ended), last.String())
}

// forTask returns the share of the remaining time for the task itself. The process needs the
// rest to start, and to check and send its answer.
func forTask(left time.Duration) time.Duration { return max(left/10*9, time.Millisecond) }

// stderrTail keeps the beginning of a process's last output.
type stderrTail struct{ bytes.Buffer }

// Write keeps the first bytes.
func (w *stderrTail) Write(p []byte) (int, error) {
	const most = 4096
	w.Buffer.Write(p[:min(len(p), max(0, most-w.Len()))])
	return len(p), nil
}

func (w *stderrTail) outOfMemory() bool {
	return bytes.Contains(w.Bytes(), []byte("out of memory")) || bytes.Contains(w.Bytes(), []byte("cannot allocate memory"))
}

func (w *stderrTail) String() string {
	first, _, _ := strings.Cut(w.Buffer.String(), "\n")
	return fmt.Sprintf("the process said %.200q", first)
}

// Task reads a request and returns the answer, in a separate process. Its context has a
// deadline. A task that has an answer at the deadline returns it, even if it is not the best.
type Task func(ctx context.Context, in *gob.Decoder) (any, error)

// The nice values of workers, from 0 to 19: orders run far behind the program itself, and
// questions behind everything else on the machine.
const (
	niceOrders    = 10
	niceQuestions = 19
)

// Main must be the first call in a program with a pool. It returns immediately, unless a pool
// has started the process: then it runs the task and ends the process.
func Main(tasks map[string]Task) {
	if len(os.Args) != 5 || os.Args[0] != title {
		return
	}
	if err := work(tasks[os.Args[1]]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// work runs a task within the pool's limits.
func work(task Task) error {
	memory, err := strconv.ParseUint(os.Args[2], 10, 64)
	if err != nil || task == nil {
		return fmt.Errorf("%v: no such task", os.Args)
	}
	within, err := time.ParseDuration(os.Args[3])
	if err != nil {
		return fmt.Errorf("%v: no time", os.Args)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	nice, err := strconv.Atoi(os.Args[4])
	if err != nil {
		return fmt.Errorf("%v: no priority", os.Args)
	}
	if err := confine(memory, nice); err != nil {
		return err
	}
	go func() { // ends when the pool's process ends
		_, _ = io.Copy(io.Discard, os.NewFile(3, "parentPipe"))
		os.Exit(1)
	}()
	answer, failed := task(ctx, gob.NewDecoder(os.Stdin))
	var o outcome
	if failed != nil && !errors.As(failed, &o.Refusal) {
		o.Late, o.Text = errors.Is(failed, context.DeadlineExceeded), failed.Error()
	}
	out := gob.NewEncoder(os.Stdout)
	if err := out.Encode(&o); err != nil || failed != nil {
		return err
	}
	return out.Encode(answer)
}

// confine limits the process. All its threads are in its process group, and new threads
// inherit the priority. Limits that cannot be set are skipped.
func confine(memory uint64, nice int) error {
	_ = syscall.Setpriority(syscall.PRIO_PGRP, 0, nice)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o644)
	for resource, most := range map[int]uint64{syscall.RLIMIT_DATA: memory, syscall.RLIMIT_CORE: 0} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit the process: %w", err)
		}
	}
	debug.SetMemoryLimit(int64(memory / 4 * 3)) // leaves the rest for stacks and C
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()-1))
	return nil
}
