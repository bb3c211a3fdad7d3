package worker

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
)

// The tasks of the tests.
var tasks = map[string]Task{
	"echo": taskOf(func(_ context.Context, request *string) (*string, error) { return request, nil }),
	"refuse": func(context.Context, *gob.Decoder) (any, error) {
		return nil, fmt.Errorf("wrapped: %w", api.Errorf("short", "and stout"))
	},
	"deadline": func(ctx context.Context, _ *gob.Decoder) (any, error) {
		end, has := ctx.Deadline()
		return fmt.Sprint(has && time.Until(end) <= 54*time.Second), nil
	},
	"late": func(context.Context, *gob.Decoder) (any, error) {
		return nil, fmt.Errorf("plan: %w", context.DeadlineExceeded)
	},
	"fail":  func(context.Context, *gob.Decoder) (any, error) { return nil, errors.New("it cannot be done") },
	"panic": func(context.Context, *gob.Decoder) (any, error) { panic("at once") },
	"sleep": func(context.Context, *gob.Decoder) (any, error) { time.Sleep(time.Hour); return nil, nil },
	// Sleeps the first time, and is quick the second time: a file named in the request tells
	// them apart.
	"again": taskOf(func(_ context.Context, name *string) (*string, error) {
		if err := os.Mkdir(*name, 0o700); err == nil {
			time.Sleep(time.Hour)
		}
		done := "done"
		return &done, nil
	}),
	"eat": func(context.Context, *gob.Decoder) (any, error) {
		var all [][]byte
		for {
			block := make([]byte, 16<<20)
			for i := 0; i < len(block); i += 4096 { // touch each page
				block[i] = 1
			}
			if all = append(all, block); len(all) > 1<<20 {
				return all[0], nil
			}
		}
	},
	// Returns the priorities of all threads, including those that started earlier.
	"nice": func(context.Context, *gob.Decoder) (any, error) {
		var out string
		threads, err := os.ReadDir("/proc/self/task")
		for _, thread := range threads {
			id, _ := strconv.Atoi(thread.Name())
			raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, id) // 20 − nice
			out += fmt.Sprintf("%d %v\n", 20-raw, err)
		}
		return out, err
	},
}

func TestMain(m *testing.M) {
	maps.Copy(tasks, Tasks())
	Main(tasks)
	os.Exit(m.Run())
}

// run runs a task and returns its answer.
func run(ctx context.Context, p *Pool, task, request string) (answer string, err error) {
	err = p.Run(ctx, task, request, &answer)
	return answer, err
}

func small() Limits {
	return Limits{Number: 2, Waiting: 1, Time: time.Minute, Memory: 512 << 20, Nice: niceOrders}
}

// TestDeadline gives a task a deadline that leaves it time to answer.
func TestDeadline(t *testing.T) {
	p := NewPool(small()) // requests have a minute
	if got, err := run(t.Context(), p, "deadline", ""); err != nil || got != "true" {
		t.Errorf("a deadline within 54 s: %q, %v", got, err)
	}
	if _, err := run(t.Context(), p, "late", ""); !errors.Is(err, ErrTime) {
		t.Errorf("without an answer: %v", err)
	}
	for left, want := range map[time.Duration]time.Duration{time.Minute: 54 * time.Second, -time.Second: time.Millisecond} {
		if got := forTask(left); got != want {
			t.Errorf("of %v a task has %v, want %v", left, got, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	p := NewPool(small())
	for _, request := range []string{"", "abc", strings.Repeat("long ", 1<<20)} {
		if answer, err := run(t.Context(), p, "echo", request); err != nil || answer != request {
			t.Errorf("%d bytes come back as %d (%v)", len(request), len(answer), err)
		}
	}
	_, err := run(t.Context(), p, "refuse", strings.Repeat("not read ", 1<<20))
	var e *api.Error
	if !errors.As(err, &e) || e.Code != "short" || e.Text != "and stout" {
		t.Errorf("an error of the API arrives as %v", err)
	}
	if _, err := run(t.Context(), p, "fail", ""); err == nil || err.Error() != "it cannot be done" {
		t.Errorf("an error arrives as %v", err)
	}
	if _, err := run(t.Context(), p, "panic", ""); err == nil || !strings.Contains(err.Error(), `said "panic: at once`) {
		t.Errorf("a panic arrives as %v", err)
	}
	if _, err := run(t.Context(), p, "unknown", ""); err == nil || !strings.Contains(err.Error(), "no such task") {
		t.Errorf("a task that is not there: %v", err)
	}
}

// TestLowPriority checks that every thread has a lower priority than the program.
func TestLowPriority(t *testing.T) {
	answer, err := run(t.Context(), NewPool(small()), "nice", "")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(answer) {
		if got, _ := strconv.Atoi(strings.Fields(line)[0]); got < niceOrders {
			t.Errorf("a thread has the priority %s", line)
		}
	}
	if mine, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err != nil || strings.HasPrefix(answer, fmt.Sprint(20-mine, " ")) && 20-mine < niceOrders {
		t.Errorf("the program's own priority is %d (%v)", 20-mine, err)
	}
}

// TestMemory runs a task that allocates all the memory it can get.
func TestMemory(t *testing.T) {
	_, err := run(t.Context(), NewPool(small()), "eat", "")
	if !errors.Is(err, ErrMemory) && !strings.Contains(err.Error(), "ThreadSanitizer failed to allocate") { // the race detector's message
		t.Errorf("a task without measure ends with %v", err)
	}
}

// TestEnds checks that a process ends when its time is up or the client leaves, and that its
// turn is then free.
func TestEnds(t *testing.T) {
	l := small()
	l.Number, l.Time = 1, 300*time.Millisecond
	p := NewPool(l)
	if _, err := run(t.Context(), p, "sleep", ""); !errors.Is(err, ErrTime) {
		t.Errorf("a task without end: %v", err)
	}
	gone := errors.New("gone")
	ctx, leave := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { leave(gone) })
	if _, err := run(ctx, p, "sleep", ""); !errors.Is(err, gone) {
		t.Errorf("the client has gone: %v", err)
	}
	var number int
	err := NewPool(small()).Run(t.Context(), "echo", strings.Repeat("long ", 1<<20), &number)
	if err == nil || !strings.Contains(err.Error(), "gob: ") {
		t.Errorf("an answer that is not a number: %v", err)
	}
	if child := workerOf(os.Getpid()); child != 0 {
		t.Errorf("process %d is left", child)
	}
}

// TestTurns checks the limits on processes and waiting requests.
func TestTurns(t *testing.T) {
	p := NewPool(small())
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	for range 3 { // two run, one waits
		go func() {
			_, err := run(ctx, p, "sleep", "")
			ended <- err
		}()
	}
	for p.waiting.Load() < 1 {
		time.Sleep(time.Millisecond)
	}
	if _, err := run(t.Context(), p, "echo", ""); !errors.Is(err, ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	end()
	for range 3 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if answer, err := run(t.Context(), p, "echo", "free"); err != nil || answer != "free" {
		t.Errorf("with turns free again: %q, %v", answer, err)
	}
}

// TestRests checks that a turn rests for as long as a process took.
func TestRests(t *testing.T) {
	l := small()
	l.Number, l.Rests = 1, true
	p := NewPool(l)
	const takes = 100 * time.Millisecond
	ctx, end := context.WithTimeout(t.Context(), takes)
	defer end()
	if _, err := run(ctx, p, "sleep", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	ended := time.Now()
	if _, err := run(t.Context(), p, "echo", "x"); err != nil {
		t.Fatal(err)
	}
	if rested := time.Since(ended); rested < takes/2 {
		t.Errorf("the next process ends %v after one of %v", rested, takes)
	}
}

// TestBrief checks that short requests do not wait for long ones, and that a long request that
// was tried briefly runs when its turn comes.
func TestBrief(t *testing.T) {
	l := small()
	l.Number, l.Waiting, l.Brief = 1, 4, 2*time.Second
	p := NewPool(l)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() {
		_, err := run(ctx, p, "sleep", "")
		ended <- err
	}()
	for len(p.turns) == 0 {
		time.Sleep(time.Millisecond)
	}
	began := filepath.Join(t.TempDir(), "began")
	go func() {
		answer, err := run(t.Context(), p, "again", began)
		if err == nil && answer != "done" {
			err = errors.New(answer)
		}
		ended <- err
	}()
	for len(p.shortSlot) == 0 {
		time.Sleep(time.Millisecond)
	}
	if answer, err := run(t.Context(), p, "echo", "short"); err != nil || answer != "short" {
		t.Errorf("behind two long requests: %q, %v", answer, err)
	}
	if _, err := os.Stat(began); err != nil {
		t.Error(err)
	}
	end()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the first long request: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the second long request: %v", err)
	}
}

// TestOrphan checks that a process ends with the program that started it.
func TestOrphan(t *testing.T) {
	if os.Getenv("WORKER_TEST_PARENT") != "" {
		_, err := run(t.Context(), NewPool(small()), "sleep", "")
		t.Fatal(err)
	}
	parent, err := os.StartProcess("/proc/self/exe", []string{os.Args[0], "-test.run=^TestOrphan$"},
		&os.ProcAttr{Env: append(os.Environ(), "WORKER_TEST_PARENT=1")})
	if err != nil {
		t.Fatal(err)
	}
	child := 0
	for deadline := time.Now().Add(time.Minute); child == 0; child = workerOf(parent.Pid) {
		if time.Now().After(deadline) {
			t.Fatal("no process was started")
		}
		time.Sleep(5 * time.Millisecond)
	}
	_ = parent.Kill()
	_, _ = parent.Wait()
	for range 1000 {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", child)); err != nil {
			return
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err == nil && strings.Contains(string(stat), ") Z ") {
			return // dead, but not yet reaped
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d has outlived the one that started it", child)
	_ = syscall.Kill(child, syscall.SIGKILL)
}

// workerOf returns the worker started by a process, or 0 before it has started.
func workerOf(parent int) int {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent))
	for _, thread := range threads {
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, thread.Name()))
		for _, id := range strings.Fields(string(list)) {
			if name, _ := os.ReadFile("/proc/" + id + "/cmdline"); strings.HasPrefix(string(name), title) {
				n, _ := strconv.Atoi(id)
				return n
			}
		}
	}
	return 0
}
