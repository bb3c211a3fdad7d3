// Package libforgpu tests the C library by which a GPU plans its own part: its plans are
// compared with those of the Go package, byte for byte.
package libforgpu

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/testbed/programs"
)

var scratch string

func TestMain(m *testing.M) { programs.Scratch(m, &scratch) }

// wrapped makes the probe count memory allocations.
const wrapped = "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc"

// checked is the probe with sanitizers, and quick the probe as programs build it.
var (
	checked = sync.OnceValues(func() (string, error) {
		return build("checked", "-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all")
	})
	quick = sync.OnceValues(func() (string, error) { return build("quick", "-O2") })
)

// build builds the library and the probe with flags.
func build(name, flags string) (string, error) {
	dir := filepath.Join(scratch, name)
	if err := programs.Sources("src/*", "*.h", "testdata/*.c", "Makefile", "../../hack/clibrary.mk"); err != nil {
		return "", err
	}
	probe := filepath.Join(dir, "probe")
	for _, cmd := range []*exec.Cmd{
		exec.Command("make", "-s", "-j2", "out="+dir, "CFLAGS=-Werror "+flags, filepath.Join(dir, "libforgpu.a")),
		exec.Command("gcc", append(strings.Fields(flags), "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I.", wrapped, "-o", probe, "testdata/probe.c", filepath.Join(dir, "libforgpu.a"))...),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return probe, nil
}

// The layouts of testdata/probe.c and of forgpu.h.
type (
	options struct {
		Grain          int64
		MaxStretch     float64
		MaxStage       int64
		B1, B2         float64
		Latency        int64
		Fewest, Groups int32
	}
	request struct {
		Choose, Servers, GPUs, Rank, Again, Parts, Each, Choices int32
		Budget, Token                                            int64
		Options                                                  options
	}
	answer struct {
		Code, Asked, Least, Median, Stages, Section int64
		Options                                     options
		Seconds, LeastSeconds                       float64
		Complete, Reserved                          int32
		Text                                        [256]byte
	}
)

// optionsOf converts Go's options to C's.
func optionsOf(o gpu.Options) options {
	c := options{o.Grain, o.MaxStretch, o.MaxStage, o.Model.B1, o.Model.B2, int64(o.Model.Latency), 0, int32(o.Groups)}
	if o.Fewest {
		c.Fewest = 1
	}
	return c
}

// gpu converts C's options to Go's.
func (o options) gpu(model gpu.Model) gpu.Options {
	return gpu.Options{Mode: gpu.Bytes, Grain: o.Grain, MaxStretch: o.MaxStretch, MaxStage: o.MaxStage, Fewest: o.Fewest != 0, Groups: int(o.Groups), Model: model}
}

// probe is a running probe.
type probe struct {
	t   testing.TB
	in  io.WriteCloser
	out *bufio.Reader
	err *bytes.Buffer
}

// start runs a probe, which must exit successfully at the end of the test.
func start(t testing.TB, program func() (string, error)) *probe {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	p := &probe{t: t, err: &bytes.Buffer{}}
	cmd.Stderr = p.err
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReaderSize(out, 1<<20)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the probe ends with %v:\n%s", err, p.err)
		}
	})
	return p
}

// do requests a plan, with speeds of the NICs if it has parts, and returns it as in the binary
// form: the lengths of the stages and the rank's section.
func (p *probe) do(q request, traffic any, speeds ...int64) (a answer, lengths []int64, section []byte) {
	p.t.Helper()
	var b bytes.Buffer
	for _, x := range []any{q, traffic, speeds} {
		if err := binary.Write(&b, binary.LittleEndian, x); err != nil {
			p.t.Fatal(err)
		}
	}
	if _, err := p.in.Write(b.Bytes()); err != nil {
		p.t.Fatalf("%v\n%s", err, p.err)
	}
	read := func(x any) {
		p.t.Helper()
		if err := binary.Read(p.out, binary.LittleEndian, x); err != nil {
			time.Sleep(100 * time.Millisecond) // the sanitizers' output comes on another pipe
			p.t.Fatalf("the probe's answer: %v\n%s", err, p.err)
		}
	}
	read(&a)
	lengths, section = make([]int64, a.Stages), make([]byte, a.Section)
	read(lengths)
	read(section)
	return a, lengths, section
}

// plan requests a plan and expects success.
func (p *probe) plan(t *gpu.Traffic, rank gpu.Rank, o gpu.Options, again int) (a answer, lengths []int64, section []byte) {
	p.t.Helper()
	q := request{Servers: int32(t.Servers), GPUs: int32(t.GPUs), Rank: int32(rank), Again: int32(again), Options: optionsOf(o)}
	if a, lengths, section = p.do(q, t.Bytes); a.Code != 0 {
		p.t.Fatalf("rank %d of %+v, %+v: %s", rank, t.Cluster, o, a.Text[:])
	}
	return a, lengths, section
}
