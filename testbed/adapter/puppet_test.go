package adapter

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// puppeteer builds the program that carries out verbs on orders.
var puppeteer = sync.OnceValues(func() (string, error) { return makePuppet("puppet") })

func makePuppet(name string, flags ...string) (string, error) {
	bin := filepath.Join(scratch, name)
	args := append([]string{"-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-std=c11", "-o", bin, "testdata/puppet.c", "-libverbs"}, flags...)
	out, err := exec.Command("cc", args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return bin, err
}

// puppet is a program on a host that carries out verbs on orders.
type puppet struct {
	*world
	p       *program
	in      io.WriteCloser
	out     *bufio.Scanner
	address uint64 // of its memory
	key     uint32 // of it
}

const memory = 1 << 16 // of a puppet

// puppet starts a puppet.
func (w *world) puppet(host string) *puppet {
	w.Helper()
	bin, err := puppeteer()
	w.must(err)
	return w.puppetOf(host, bin)
}

// puppetOf starts a puppet by a command of its own.
func (w *world) puppetOf(host string, command ...string) *puppet {
	w.Helper()
	p := w.prepare(host, nil, command...)
	in, err := p.StdinPipe()
	w.must(err)
	p.Stdout = nil
	out, err := p.StdoutPipe()
	w.must(err)
	w.must(p.Start())
	u := &puppet{world: w, p: p, in: in, out: bufio.NewScanner(out)}
	u.out.Buffer(nil, 4*memory)
	u.reads("memory %d", memory)(&u.address, &u.key)
	return u
}

// tell gives an order, and returns the answer.
func (u *puppet) tell(format string, args ...any) string {
	u.Helper()
	order := fmt.Sprintf(format, args...)
	_, _ = io.WriteString(u.in, order+"\n")
	if !u.out.Scan() {
		u.Fatalf("%s: the puppet has ended: %s", order, u.p.out.String())
	}
	return u.out.Text()
}

// reads gives an order whose answer are numbers.
func (u *puppet) reads(format string, args ...any) func(...any) {
	u.Helper()
	said := u.tell(format, args...)
	return func(to ...any) {
		u.Helper()
		if n, err := fmt.Sscan(said, to...); n != len(to) {
			u.Fatalf(format+": %s: %v", append(args, said, err)...)
		}
	}
}

// does gives an order that must succeed.
func (u *puppet) does(format string, args ...any) {
	u.Helper()
	if said := u.tell(format, args...); said != "ok" {
		u.Fatalf(format+": %s", append(args, said)...)
	}
}

// completion is a completion with its valid fields.
type completion struct {
	id             uint64
	status, opcode int
	bytes          int
	qpn            uint32
}

// poll waits for n completions.
func (u *puppet) poll(n, ms int) (all []completion) {
	u.Helper()
	for said := u.tell("poll %d %d", n, ms); said != "end"; said = u.out.Text() {
		var c completion
		if k, _ := fmt.Sscanf(said, "wc %d %d %d %d %d", &c.id, &c.status, &c.opcode, &c.bytes, &c.qpn); k != 5 {
			u.Fatalf("poll: %s", said)
		}
		all = append(all, c)
		if !u.out.Scan() {
			u.Fatal("the puppet has ended")
		}
	}
	return all
}

// end makes it destroy everything and end successfully.
func (u *puppet) end() {
	u.Helper()
	_ = u.in.Close()
	if err := u.p.Wait(); err != nil {
		u.Fatalf("the puppet: %v: %s", err, u.p.out.String())
	}
}

// pair is a queue pair of a puppet.
type pair struct {
	i        int
	qpn, lid uint32
}

func (u *puppet) pair(wrs int, receives string) (p pair) {
	u.Helper()
	u.reads("pair rc %d %s", wrs, receives)(&p.i, &p.qpn, &p.lid)
	return p
}

// patience is how a connection tolerates losses: timeout, retries, RNR retries.
type patience [3]int

var lasting = patience{14, 7, 7}

// join connects two queue pairs by path bits of both ports.
func join(a, b *puppet, x, y pair, bits uint32, p patience) {
	a.Helper()
	a.does("connect %d %d %d %d %d %d %d 4", x.i, y.qpn, y.lid|bits, bits, p[0], p[1], p[2])
	b.does("connect %d %d %d %d %d %d %d 4", y.i, x.qpn, x.lid|bits, bits, p[0], p[1], p[2])
}

// statuses are the statuses of completions, in order.
func statuses(all []completion) (s []int) {
	for _, c := range all {
		s = append(s, c.status)
	}
	return s
}

// Statuses of completions, by their numbers in verbs.h.
const (
	success       = 0
	locLenErr     = 1
	locProtErr    = 4
	flushed       = 5
	remInvReqErr  = 9
	remAccessErr  = 10
	retryExceeded = 12
	rnrExceeded   = 13
)

// withinRetryTime is how long the tests wait for completions, in milliseconds; their
// connections give up in less than a second.
const withinRetryTime = 20_000

// expect fails if the next completions have other statuses.
func (u *puppet) expect(want ...int) {
	u.Helper()
	got := u.poll(len(want), withinRetryTime)
	if !slices.Equal(statuses(got), want) {
		u.Errorf("completions %+v, want statuses %v; %s", got, want, strings.TrimSpace(u.p.out.String()))
	}
}
