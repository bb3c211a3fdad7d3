package libforcarry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/adapter"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
	"github.com/forsd/forsd/testbed/routed"
	"github.com/forsd/forsd/topology"
)

var scratch string

func TestMain(m *testing.M) { programs.Scratch(m, &scratch) }

// The library with the program of testdata, built once for all tests, and the adapter.
var (
	quick   = sync.OnceValues(func() (string, error) { return build("quick", "-O2 -g") })
	checked = sync.OnceValues(func() (string, error) {
		return build("checked", "-O1 -g -DSANITIZED -fsanitize=address,undefined -fno-sanitize-recover=all")
	})
	verbs = sync.OnceValue(func() error { return adapter.Build(context.Background(), filepath.Join(scratch, "verbs")) })
)

func build(name, flags string) (string, error) {
	dir := filepath.Join(scratch, name)
	if err := programs.Sources("src/*", "*.h", "*.map", "testdata/*.c", "Makefile", "../../hack/clibrary.mk", "../libforgpu/src/*", "../libforgpu/*.h"); err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "ranks")
	gcc := append(strings.Fields(flags), "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I.", "-I../libforgpu", "-o", bin, "testdata/ranks.c",
		"-L"+dir, "-Wl,-rpath-link,"+dir, "-lforcarry", "-lforgpu", "-libverbs", "-ldl")
	for _, cmd := range []*exec.Cmd{exec.Command("make", "-s", "-j2", "out="+dir, "CFLAGS=-Werror "+flags), exec.Command("gcc", gcc...)} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return bin, nil
}

// A job has a process for each rank, on hosts of a simulated fabric.
type job struct {
	servers, gpus, tokens, choices, experts, row, frames, seed int
	elements                                                   string
	rate                                                       int64 // bytes a second of a link
	breaks                                                     []stop
	env                                                        []string
	without                                                    int // rank whose process has no NIC, plus 1
	python                                                     string
}

// At a stop a rank waits for the death of NICs, or of the process of a rank.
type stop struct {
	rank, frame int
	moment      string
	nics        []int
	process     bool
	cable       bool // the one from a leaf to a spine, in place of NICs
}

// counts is the last line of a rank.
type counts struct {
	frames, bytes, sums, repeats, dead, own, sent int64
	opened, registered                            int64 // allocations and registrations of opening
	allocations, registrations                    int64 // after the first frame
	seconds                                       float64
}

// site is the fabric of a job, and what has died.
type site struct {
	t      *testing.T
	data   *adapter.Fabric
	mu     sync.Mutex
	fabric *topology.Fabric
	ranks  []*exec.Cmd
}

func (s *site) kill(x stop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, nic := range x.nics {
		if x.process {
			_ = s.ranks[nic].Process.Kill()
			continue
		}
		at := s.fabric.Find(fabgen.HostGUID + ib.GUID(2*nic))
		s.fabric.Nodes[at].Ports[1].State = topology.Down
	}
	if x.cable {
		leaf := &s.fabric.Nodes[s.fabric.Find(fabgen.LeafGUID)]
		for p := range leaf.Ports {
			if port := &leaf.Ports[p]; port.Peer >= 0 && s.fabric.Nodes[port.Peer].Kind == topology.Switch {
				port.State = topology.Down
				break
			}
		}
	}
	if err := errors.Join(s.data.SetLinks(s.fabric), s.data.Sync(s.t.Context())); err != nil {
		s.t.Error(err)
	}
}

// command is that of a rank.
func (j *job) command(rank int, bin, dir string) []string {
	if j.python != "" {
		return []string{"python3", j.python, dir, fmt.Sprint(rank), fmt.Sprint(j.servers), fmt.Sprint(j.gpus)}
	}
	args := []string{bin, dir}
	for _, v := range []int{rank, j.servers, j.gpus, j.tokens, j.choices, j.experts, j.row, j.frames, j.seed} {
		args = append(args, fmt.Sprint(v))
	}
	args = append(args, j.elements)
	for _, x := range j.breaks {
		if x.rank == rank {
			args = append(args, fmt.Sprintf("%d:%s", x.frame, x.moment))
		}
	}
	return args
}

// run runs the ranks and returns the last line of each.
func run(t *testing.T, program func() (string, error), j job) []string {
	t.Helper()
	programs.Needs(t, "make", "gcc")
	bin, err := program()
	if err := errors.Join(err, verbs()); err != nil {
		t.Fatal(err)
	}
	ranks := j.servers * j.gpus
	fabric := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: (ranks + 3) / 4, LMC: 0})
	tables, err := routed.Tables(fabric)
	if err != nil {
		t.Fatal(err)
	}
	data, err := adapter.Start(adapter.Options{Programs: filepath.Join(scratch, "verbs"), Fabric: fabric, Rate: j.rate})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := errors.Join(data.SetTables(tables), data.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, data: data, fabric: fabric.Clone(), ranks: make([]*exec.Cmd, ranks)}
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	dir, last, stderr := t.TempDir(), make([]string, ranks), make([]strings.Builder, ranks)
	ins, outs := make([]io.WriteCloser, ranks), make([]io.Reader, ranks)
	for r := range ranks {
		command := j.command(r, bin, dir)
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env = append(append(os.Environ(), j.env...), "ASAN_OPTIONS=detect_leaks=1")
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+filepath.Join(scratch, "verbs")+":"+filepath.Dir(bin))
		if j.without != r+1 {
			cmd.Env = append(cmd.Env, data.Env(fmt.Sprintf("Hca%04d", r))[1:]...)
		}
		cmd.Stderr = &stderr[r]
		if ins[r], err = cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if outs[r], err = cmd.StdoutPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.ranks[r] = cmd
	}
	var all sync.WaitGroup
	for r := range ranks {
		all.Go(func() {
			for lines := bufio.NewScanner(outs[r]); lines.Scan(); {
				last[r] = lines.Text()
				var frame int
				if n, _ := fmt.Sscanf(last[r], "break %d", &frame); n == 0 {
					continue
				}
				for _, x := range j.breaks {
					if x.rank == r && x.frame == frame {
						s.kill(x)
					}
				}
				_, _ = io.WriteString(ins[r], "\n")
			}
		})
	}
	all.Wait()
	for r, cmd := range s.ranks {
		_ = cmd.Wait()
		if stderr[r].Len() > 0 {
			t.Errorf("rank %d: %s", r, &stderr[r])
		}
	}
	return last
}

// must runs a job in which all frames arrive, and returns the sums of the ranks' counts, but the most of
// repeats and seconds.
func must(t *testing.T, program func() (string, error), j job) (sum counts) {
	t.Helper()
	for r, line := range run(t, program, j) {
		var c counts
		n, err := fmt.Sscanf(line, "frames %d bytes %d sums %d repeats %d dead %d own %d sent %d opened %d %d allocations %d registrations %d seconds %f",
			&c.frames, &c.bytes, &c.sums, &c.repeats, &c.dead, &c.own, &c.sent, &c.opened, &c.registered, &c.allocations, &c.registrations, &c.seconds)
		if n != 12 || len(j.env) == 0 && c.frames != int64(j.frames) || r > 0 && c.frames != sum.frames {
			t.Fatalf("rank %d ends with %q (%v)", r, line, err)
		}
		sum.frames = c.frames
		sum.bytes, sum.sums, sum.sent, sum.own = sum.bytes+c.bytes, sum.sums+c.sums, sum.sent+c.sent, sum.own+c.own
		sum.opened, sum.registered = sum.opened+c.opened, sum.registered+c.registered
		sum.allocations, sum.registrations = sum.allocations+c.allocations, sum.registrations+c.registrations
		sum.repeats, sum.dead, sum.seconds = max(sum.repeats, c.repeats), max(sum.dead, c.dead), max(sum.seconds, c.seconds)
	}
	t.Logf("%+v: %+v", j, sum)
	if sum.bytes == 0 || sum.sums == 0 {
		t.Error("nothing has been checked")
	}
	return sum
}
