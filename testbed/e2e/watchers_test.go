package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/fabgen"
)

// mostForWatchers is the most memory that 10,000 watchers may take, in kB for each connected one.
const mostForWatchers = 64

// crowd is watchers that wait for events and plans and do not read the answers.
type crowd struct {
	carried, refused, failed int
	conns                    []net.Conn
}

// watch opens watchers, of which 8 in 10 have streams of events over TCP, from addresses of
// their own, and the others long polls on the socket.
func (x *test) watch(address string, all int, epoch uint64) *crowd {
	x.Helper()
	c := &crowd{}
	var mu sync.Mutex
	var work sync.WaitGroup
	room := make(chan struct{}, 64)
	for n := range all {
		room <- struct{}{}
		work.Go(func() {
			defer func() { <-room }()
			dial := func() (net.Conn, error) {
				from := &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+n%100))}
				return (&net.Dialer{LocalAddr: from}).Dial("tcp", address)
			}
			request := "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
			if n%10 >= 8 {
				dial = func() (net.Conn, error) { return net.Dial("unix", x.Socket()) }
				request = fmt.Sprintf("GET /v1/plan HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=300\r\nIf-None-Match: \"%d\"\r\n\r\n", epoch)
			}
			conn, err := dial()
			status := ""
			if err == nil {
				_, err = io.WriteString(conn, request)
			}
			if err == nil && n%10 < 8 { // a long poll has no answer yet
				_ = conn.SetReadDeadline(time.Now().Add(patience))
				status, err = bufio.NewReaderSize(conn, 16).ReadString('\n')
			}
			mu.Lock()
			defer mu.Unlock()
			if conn != nil {
				c.conns = append(c.conns, conn)
			}
			switch {
			case strings.Contains(status, " 503 "):
				c.refused++
			case err != nil:
				c.failed++
			default:
				c.carried++
			}
		})
	}
	work.Wait()
	return c
}

// leave closes all.
func (c *crowd) leave() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// rss is the resident memory of forsd, in kB.
func (x *test) rss() (kb int) {
	x.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.Forsd.PID()))
	x.ok(err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	_, err = fmt.Sscan(rest, &kb)
	x.ok(err)
	return kb
}

// pull pulls cables one after the other and puts each back, and returns how long forsd had from
// the first sign of each loss to the published plan, in milliseconds and in order. With FORS_LONG
// all watchers have heard of the previous change when a cable is pulled; otherwise many hear of
// it during the next one.
func (x *test) pull(load *Sight, cables int) (times []float64) {
	x.Helper()
	for n := range cables {
		if long {
			time.Sleep(3 * time.Second)
		}
		leaf, lane := n%len(load.Tree.Leaves), (3*n+1)%load.Tree.Lanes
		at := load.Tree.Leaves[leaf]
		port := int(at.Cables[lane].LeafPort)
		x.ok(x.Sim.Unlink(x.ctx, at.Name, port))
		st := x.settled(Cable(leaf, lane, "missing"))
		times = append(times, 1e3*st.LastEvent.PublishedSeconds)
		x.ok(x.Sim.Relink(x.ctx, at.Name, port))
		x.settled(Cable(leaf, lane, "full"))
	}
	slices.Sort(times)
	return times
}

// TestWatchers has 10,000 watchers at a forsd that works: as many as possible are connected, the
// others are refused, memory is bounded, operators are answered, and plans are published. The
// test prints the delays of the plans with watchers and without.
func TestWatchers(t *testing.T) {
	const wanted, cables = 10_000, 8
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	all := int(min(wanted, limit.Cur-500))
	forsd := freeAddress(t)
	o := byPlugin(t, Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 8, Leaves: 8}), LMC: 3, Config: "  listen: " + forsd + "\n" + steady})
	x, healthy := up(t, 5*time.Minute, o)
	x.pull(healthy, 2) // so that all is at work as later
	before := x.pull(healthy, cables)
	st, err := x.Client.Status(x.ctx)
	x.ok(err)
	alone := x.rss()
	began := time.Now()
	c := x.watch(forsd, all, st.Epoch)
	defer c.leave()
	crowded := x.rss()
	t.Logf("%d watchers within %v: %d carried, %d refused, %d failed; forsd has %d MB, and had %d MB without them: %.1f kB each",
		all, time.Since(began).Round(time.Millisecond), c.carried, c.refused, c.failed, crowded/1024, alone/1024, float64(crowded-alone)/float64(c.carried))
	if c.failed > 0 || c.carried < all/2 {
		t.Errorf("%d are carried, and %d are neither carried nor told why", c.carried, c.failed)
	}
	with := x.pull(healthy, cables) // on the socket, which has room of its own
	events := x.rss()
	t.Logf("after %d changes with them forsd has %d MB", 2*cables, events/1024)
	if most := alone + mostForWatchers*c.carried; max(crowded, events) > most {
		t.Errorf("forsd has %d kB, and %d at most are expected", max(crowded, events), most)
	}
	c.leave()
	x.until("they have left", func(st *api.Status) bool { return st.Ready })
	after := x.pull(healthy, cables)
	said := ""
	for n, times := range [][]float64{before, with, after} {
		said += fmt.Sprintf("; %s %.1f (%.1f to %.1f)", []string{"without them", "with them", "when they have left"}[n], times[cables/2], times[0], times[cables-1])
	}
	t.Logf("from the first sign to the plan in ms, medians of %d, the least and the most%s", cables, said)
	a, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+forsd+"/healthz", nil)
	x.ok(err)
	answer, err := http.DefaultClient.Do(a)
	x.ok(err)
	_ = answer.Body.Close()
}
